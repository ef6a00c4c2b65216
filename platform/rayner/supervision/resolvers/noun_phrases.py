"""Mentions of an English text by rule: names, noun phrases, pronouns, and what they say of their entity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from rayner.data.schema import Document
from rayner.data.sentences import sentences_of
from rayner.data.words import words_of
from rayner.supervision.pronouns import PRONOUNS, Agreement, is_pronoun
from rayner.supervision.resolvers import lexicon
from rayner.supervision.resolvers.quotations import quotations

_NUMBERED = lexicon.words("chapter part book volume act scene section phase type class war")
"""What a Roman number follows, where it has a capital."""
_RULERS = lexicon.words(
    "henry charles james edward george richard william elizabeth francis frederick louis philip napoleon "
    "nicholas alexander leopold wilhelm"
)
"""Whom a Roman number follows. Before another word `I` is mostly who tells: `they told George I left`."""
_BEFORE_A_MINE = lexicon.words(
    "the a an each every another my your his our their gold silver copper iron coal salt diamond"
)
"""Not `her`, as in `I gave her mine`, nor `this` and `that`, as in `is this mine?`."""
_POSSESSIVE_PRONOUNS = lexicon.words("my your his her its our their thy")
_DETERMINERS = lexicon.words(
    "the a an this that these those some any every each no another all both many several few two three "
    "four five six seven eight nine ten"
)
_INDEFINITE = lexicon.words("a an some any every each no another many several few")
_MOST_WORDS = 6
_IT_IS = lexicon.words("is was seems seemed appears appeared happened rains rained snows snowed")


class Found(NamedTuple):
    """A mention.

    Attributes:
        first, last: its words, both inclusive.
        head: its head word.
        kind: a name, a noun phrase or a pronoun.
        agreement: what it says of number and gender.
        determiner: the word that it begins with, in lower case; empty for names.
    """

    first: int
    last: int
    head: int
    kind: Literal["name", "phrase", "pronoun"]
    agreement: Agreement
    determiner: str = ""

    @property
    def is_indefinite(self) -> bool:
        """Whether it introduces something new."""
        return self.determiner in _INDEFINITE


@dataclass(frozen=True, slots=True)
class Tokens:
    """The words of a document, and for each: its lower case, sentence, and quotation (0 outside any)."""

    spans: Sequence[tuple[int, int]]
    texts: Sequence[str]
    lower: Sequence[str]
    sentence: Sequence[int]
    quotation: Sequence[int]

    @classmethod
    def of(cls, document: Document) -> Tokens:
        """Those of a document, its own where it brings some."""
        spans = words_of(document, "corpus")
        texts = [document.text[start:end] for start, end in spans]
        starts = [start for start, _ in sentences_of(document)]
        sentence, current = [], -1
        for start, _ in spans:
            while current + 1 < len(starts) and starts[current + 1] <= start:
                current += 1
            sentence.append(current)
        return cls(spans, texts, [text.lower() for text in texts], sentence, quotations(document.text, spans))

    def __len__(self) -> int:
        return len(self.spans)

    def is_possessive(self, place: int) -> bool:
        """Whether a possessive mark is at a place: `'s` as one word, or its apostrophe."""
        if place >= len(self.texts):
            return False
        mark = self.texts[place]
        return mark in ("'s", "’s") or (mark in ("'", "’") and self.lower[place + 1 : place + 2] == ["s"])

    def begins_sentence(self, place: int) -> bool:
        """Whether nothing but marks is before it in its sentence. A quotation of several sentences is one: a
        word after a full stop or an opening mark begins one, too."""
        before = place - 1
        while before >= 0 and self.sentence[before] == self.sentence[place]:
            if self.texts[before][0].isalnum():
                return False
            if self._ends_sentence(before) or self._opens_quotation(before):
                return True
            before -= 1
        return True

    def _ends_sentence(self, place: int) -> bool:
        mark = self.texts[place]
        return mark in ("?", "!") or (mark == "." and not self.is_abbreviated(place - 1))

    def _opens_quotation(self, place: int) -> bool:
        number = self.quotation[place]
        return number > 0 and (place == 0 or self.quotation[place - 1] != number)

    def is_abbreviated(self, place: int) -> bool:
        """Whether a full stop after a word is that of a title or an initial."""
        return self.lower[place] in lexicon.TITLES or len(self.texts[place]) == 1


def find_mentions(tokens: Tokens) -> list[Found]:
    """Names, noun phrases and pronouns in the order of their words; the outer ones first."""
    name_at = {name.first: name for name in _names(tokens)}
    found = list(name_at.values())
    found += _pronouns(tokens)
    for place in range(len(tokens)):
        phrase = _phrase(tokens, place, name_at)
        if phrase is not None:
            found.append(phrase)
    distinct: dict[tuple[int, int], Found] = {}
    for one in found:
        distinct.setdefault((one.first, one.last), one)
    return sorted(distinct.values(), key=lambda one: (one.first, -one.last))


def _pronouns(tokens: Tokens) -> Iterator[Found]:
    for place, word in enumerate(tokens.lower):
        if _is_pronoun(tokens, place) and not (word == "it" and _says_nothing(tokens, place)):
            yield Found(place, place, place, "pronoun", PRONOUNS[word], word)


def _is_pronoun(tokens: Tokens, place: int) -> bool:
    text, before = tokens.texts[place], tokens.texts[place - 1] if place else ""
    if text in ("I", "i"):
        return text == "I" and not (_is_capitalized(before) and _is_number(tokens, place))
    return is_pronoun(text) and not (text.lower() == "mine" and before.lower() in _BEFORE_A_MINE)


def _is_number(tokens: Tokens, place: int) -> bool:
    before, following = tokens.lower[place - 1], "".join(tokens.lower[place + 1 : place + 2])
    is_last = not following[:1].isalnum() or following == "of"
    return before in _NUMBERED or (before in _RULERS and is_last)


def _says_nothing(tokens: Tokens, place: int) -> bool:
    """Whether an `it` is that of `it is true that` or `it rains`."""
    following = tokens.lower[place + 1 : place + 6]
    return bool(following) and following[0] in _IT_IS and bool({"that", "to", "whether"} & set(following[1:]))


def _names(tokens: Tokens) -> Iterator[Found]:
    """Runs of capitalized words. One that begins a sentence counts if it is capitalized elsewhere, too, or
    is never found in lower case."""
    inside, seen = Counter[str](), Counter(tokens.texts)
    for place, text in enumerate(tokens.texts):
        inside[text] += _is_capitalized(text) and not tokens.begins_sentence(place)

    def is_part(place: int) -> bool:
        text, lower = tokens.texts[place], tokens.lower[place]
        if not _is_capitalized(text) or lower in PRONOUNS or lower in lexicon.NO_NAMES:
            return False
        if tokens.begins_sentence(place) and not inside[text]:
            known = lower in lexicon.TITLES or lower in lexicon.FIRST_NAMES
            return known or (not seen[lower] and lower not in ENGLISH_STOP_WORDS | lexicon.VERBS)
        return lower not in ENGLISH_STOP_WORDS

    place = 0
    while place < len(tokens):
        if not is_part(place):
            place += 1
            continue
        last = place
        while (following := _next_part(tokens, last)) is not None and is_part(following):
            last = following
        yield Found(place, last, last, "name", _of_name(tokens, place, last))
        place = last + 1


def _next_part(tokens: Tokens, place: int) -> int | None:
    """Where a name goes on: at the next word, after the full stop of a title or an initial, or after `of`."""
    following = place + 1
    if following < len(tokens) and tokens.texts[following] == ".":
        following = following + 1 if tokens.is_abbreviated(place) else len(tokens)
    elif following + 1 < len(tokens) and tokens.lower[following] in ("of", "de", "van", "von", "-"):
        following += _is_capitalized(tokens.texts[following + 1])
    same = following < len(tokens) and tokens.sentence[following] == tokens.sentence[place]
    return following if same else None


def _of_name(tokens: Tokens, first: int, last: int) -> Agreement:
    words = tokens.lower[first : last + 1]
    genders = [lexicon.TITLES.get(word) or lexicon.FIRST_NAMES.get(word) for word in words]
    is_company = words[0] == "general" and words[1:2] and words[1] in lexicon.COMPANIES
    is_unknown = is_company or words[0].removesuffix(".") == "st"
    gender = None if is_unknown else next(filter(None, genders), None)
    if words[-1] in lexicon.TIMES and set(words) <= lexicon.TIMES | lexicon.BEFORE_TIMES:
        return Agreement(3, False, "n")
    return Agreement(3, None if gender is None else False, gender)


def _phrase(tokens: Tokens, place: int, name_at: dict[int, Found]) -> Found | None:
    """The noun phrase that begins at a place: with a determiner, or with a possessor."""
    determiner, start = tokens.lower[place], place + 1
    name = name_at.get(place)
    if name is not None and tokens.is_possessive(name.last + 1):
        determiner, start = "'s", name.last + 2
        if tokens.texts[name.last + 1] in ("'", "’"):
            start += 1
    elif determiner not in _DETERMINERS and determiner not in _POSSESSIVE_PRONOUNS:
        return None
    end = start
    while end < len(tokens) and end - start < _MOST_WORDS and _goes_on(tokens, place, start, end):
        end += 1
    # `the U.S.` is a name, of which a phrase would have the first letter alone; `the vitamin C.` is none.
    is_initial = end - start == 1 and _is_capitalized(tokens.texts[start]) and len(tokens.texts[start]) == 1
    if end == start or (is_initial and tokens.texts[end : end + 1] == ["."]):
        return None
    agreement = _of_phrase(tokens, end - 1)
    # As in `she said that patients died`, where it is a conjunction, and seldom has a capital.
    is_name = _is_capitalized(tokens.texts[start]) and _is_capitalized(tokens.texts[end - 1])
    if tokens.texts[place] == "that" and (agreement.plural or is_name):
        return None
    return Found(place, end - 1, end - 1, "phrase", agreement, determiner)


def _goes_on(tokens: Tokens, place: int, start: int, end: int) -> bool:
    """Whether a noun phrase holds the word at `end`. A verb ends it, if a noun may have been before."""
    word = tokens.lower[end]
    if tokens.sentence[end] != tokens.sentence[place] or not word[0].isalnum():
        return False
    if (
        word in ENGLISH_STOP_WORDS
        and word not in lexicon.NOUNS
        and word not in ("other", "own", "first", "last", "mine")
    ):
        return False
    if _is_pronoun(tokens, end) or word in lexicon.VERBS | lexicon.ADVERBS or word.endswith("ly"):
        return False
    return end == start or not word.endswith(("ed", "ing")) or tokens.lower[end - 1] in ("other", "own")


def _of_phrase(tokens: Tokens, head: int) -> Agreement:
    word = tokens.lower[head]
    gender = (
        lexicon.NOUNS.get(word)
        or lexicon.NOUNS.get(word.removesuffix("s"))
        or lexicon.NOUNS.get(lexicon.PLURALS.get(word, ""))
    )
    plural = word in lexicon.PLURALS or (word.endswith("s") and not word.endswith(("ss", "us", "is")))
    return Agreement(3, plural, gender or ("n" if not tokens.texts[head][0].isupper() else None))


def _is_capitalized(text: str) -> bool:
    return text[:1].isalpha() and text[0].isupper()
