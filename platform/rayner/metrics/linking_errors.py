"""What kind of mistake each wrong answer of a standardizer is (papers/002, section 5.5, table 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import Any

import regex

from rayner.data.mention_strings import fold, is_right, name_of
from rayner.metrics.error_kinds import spread
from rayner.metrics.linking import GivenAnswer, GoldMention

CATEGORIES: tuple[str, ...] = ("misspelling", "acronym", "multi_match", "no_match")
NIL_CATEGORIES: tuple[str, ...] = ("judged_nil", "nil_linked")
_WORDS = regex.compile(r"\p{L}[\p{L}\p{M}]*|\p{N}+")
_SHORTEST_PART = 3
"""Characters of the shortest string that counts as a part of another, and of a misspelt word less one."""

Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class AnswerError:
    """A mistake: `gold` is a name of the right entity, `predicted` the name found; None where it is NIL."""

    text: str
    category: str
    gold: str | None
    predicted: str | None
    score: float


def categorize_answers(
    gold: Sequence[GoldMention],
    answers: Sequence[GivenAnswer],
    names: Names,
    texts: Iterable[str] | None = None,
) -> list[AnswerError]:
    """The mistakes, in order.

    Where the first candidate is wrong, by what mention and right entity have in common:

    - `acronym`: one has the first letters of the other's words (NES, Netscape Enterprise Server);
    - `misspelling`: a word of the mention that no name of the knowledge base has is nearly a word of the
      entity's (Andriod, Android);
    - `multi_match`: they share a word, or one holds the other, as other entities do too (Cordova Android);
    - `no_match`: nothing of these.

    Where it is right but the answer is NIL, `judged_nil`; where the mention is NIL but the answer is not,
    `nil_linked`.

    Args:
        names: name and aliases of every entity that a mention is of, by id.
        texts: names and aliases of all entities; by default those of `names`.
    """
    every = chain.from_iterable(names.values()) if texts is None else texts
    # Of many names, no words are kept but those of mentions.
    asked = {word for mention in gold for word in _words(mention.text)}
    vocabulary = asked.intersection(word for name in every for word in _words(name))
    errors = []
    for mention, answer in zip(gold, answers, strict=True):
        first = answer.candidates[0] if answer.candidates else None
        right_names = [name for id_ in mention.entity_ids for name in names.get(id_, ())]
        shown = right_names[0] if right_names else "|".join(mention.entity_ids) or None
        if not mention.entity_ids:
            category = None if answer.entity_id is None else "nil_linked"
        elif is_right(answer.entity_id, mention.entity_ids):
            category = None
        elif answer.entity_id is None and first is not None and first.entity_id in mention.entity_ids:
            category = "judged_nil"
        else:
            category = category_of(mention.text, right_names, vocabulary)
        if category is not None:
            found = {candidate.entity_id: candidate.name for candidate in answer.candidates}
            predicted = None if answer.entity_id is None else name_of(answer.entity_id, found)
            errors.append(AnswerError(mention.text, category, shown, predicted, answer.score))
    return errors


def telling_texts(gold: Sequence[GoldMention], texts: Iterable[str]) -> list[str]:
    """The few of the texts by which `categorize_answers` and `seen_among` find of the mentions what they find
    by all of them."""
    folded = {fold(mention.text) for mention in gold}
    words = {word for mention in gold for word in _words(mention.text)}
    kept = []
    for text in texts:
        new, whole = words.intersection(_words(text)), fold(text)
        if new or whole in folded:
            words -= new
            folded.discard(whole)
            kept.append(text)
    return kept


def summarize_answer_errors(errors: Sequence[AnswerError], examples: int = 8) -> dict[str, Any]:
    """Counts and examples by category, those of the paper first.

    Args:
        examples: at most so many a category, different ones, spread evenly over the mentions.
    """
    counts = Counter(error.category for error in errors)
    everything = CATEGORIES + NIL_CATEGORIES
    by_category = {name: dict.fromkeys(e for e in errors if e.category == name) for name in everything}
    return {
        "counts": {name: counts[name] for name in everything},
        "examples": {
            name: [asdict(e) for e in spread(list(by_category[name]), examples)] for name in everything
        },
    }


def category_of(text: str, names: Sequence[str], vocabulary: set[str]) -> str:
    """What a mention has in common with the names of its entity: one of `CATEGORIES`.

    Args:
        vocabulary: the words of the knowledge base, without case; at least those that the mention has.
    """
    if any(_is_acronym(text, name) for name in names):
        return "acronym"
    words = set(_words(text))
    strange = {word for word in words - vocabulary if len(word) > _SHORTEST_PART}
    for name in names:
        if any(_is_near(word, other) for word in strange for other in _words(name)):
            return "misspelling"
    # Last, because the long form of an alias (VB) may be misspelt (Visusal Basic).
    if any(_is_acronym(name, text) for name in names):
        return "acronym"
    if any(words & set(_words(name)) or _holds(text, name) for name in names):
        return "multi_match"
    return "no_match"


def edits(a: str, b: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours from `a` to `b`, none on another."""
    older: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                best = min(best, older[j - 2] + 1)
            row.append(best)
        older, last = last, row
    return last[-1]


def _words(text: str) -> list[str]:
    """Runs of letters and runs of digits, without case."""
    return _WORDS.findall(fold(text))


def _is_near(word: str, other: str) -> bool:
    """Whether so few edits part them as a slip makes: one in four letters."""
    allowed = max(len(word), len(other)) // (_SHORTEST_PART + 1)
    return abs(len(word) - len(other)) <= allowed and edits(word, other) <= allowed


def _is_acronym(short: str, long: str) -> bool:
    """Whether `short` is one word, numbers aside, of the letters that the words of `long` begin with."""
    letters = [word for word in _words(short) if word.isalpha()]
    return len(letters) == 1 and len(letters[0]) > 1 and letters[0] in _initials(long)


def _initials(name: str) -> set[str]:
    """The first letters of all words and of all but the small ones; MinIO counts as one word and as two."""
    words = [word for word in _WORDS.findall(name) if word.isalpha()]
    small = {"of", "the", "and", "for", "in", "to"}
    found = set()
    for parts in (words, [part for word in words for part in _humps(word)]):
        for some in (parts, [part for part in parts if fold(part) not in small]):
            found.add("".join(fold(part)[0] for part in some))
    return found


def _humps(word: str) -> list[str]:
    """The word cut before each capital that follows a small letter."""
    cuts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(word)) if a.islower() and b.isupper()), len(word)]
    return [word[a:b] for a, b in pairwise(cuts)]


def _holds(a: str, b: str) -> bool:
    """Whether one of the two, letters and digits alone, is a part of the other."""
    short, long = sorted(("".join(_words(a)), "".join(_words(b))), key=len)
    return len(short) >= _SHORTEST_PART and short in long
