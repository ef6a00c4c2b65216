"""The head word of a mention by rule, where no annotation and no parser names it."""

from __future__ import annotations

from collections.abc import Sequence

_POSSESSIVE = {"'s", "’s", "'", "’"}
_PREPOSITIONS = (
    "about above across after against along among around as at before behind below beneath beside between "
    "beyond by during except for from in inside into like near of off on onto opposite out outside over past "
    "since than through throughout till to toward towards under until up upon versus via with within without"
)
_RELATIVES = "who whom whose which that where when why"
_AFTER_THE_HEAD = frozenset(f"{_PREPOSITIONS} {_RELATIVES}".split())
_DETERMINERS = "the a an this that these those my your his her its our their"
_BEFORE_THE_HEAD = frozenset(_DETERMINERS.split())
_JOINING = frozenset((*'-–.&/@#$£€%+_*"“”‘„«»‹›', "``", "''"))


def head_of(words: Sequence[str]) -> int:
    """The place of the head among the words of an English noun phrase.

    It is the last word before what follows the head: a preposition, a relative pronoun, a comma or a bracket
    (`the patient in front of her`: `patient`), as in the rules of Collins (1999, Head-Driven Statistical
    Models for Natural Language Parsing, appendix A) as far as they need no parse. No mark ends a phrase of
    which only determiners are before it (`the ( small ) amount`). In a phrase of another language, or without
    such a word, it is the last word that holds a letter or digit.
    """
    end, begins = len(words), True
    for place, word in enumerate(words):
        if place and _follows_a_head(word) and not (begins and _is_mark(word)):
            end = place
            break
        begins &= word.lower() in _BEFORE_THE_HEAD or _is_mark(word)
    for place in range(end - 1, -1, -1):
        if not is_possessive(words, place) and any(map(str.isalnum, words[place])):
            return place
    return max(0, end - 1)


def head_limits(words: Sequence[str]) -> list[int]:
    """For each word, the last one that can be the head of a phrase that begins there."""
    limits, limit = [0] * len(words), len(words) - 1
    # Of a phrase that begins with determiners and marks, or with what follows those.
    beyond = limit
    for place in range(len(words) - 1, -1, -1):
        word = words[place]
        begins = word.lower() in _BEFORE_THE_HEAD or _is_mark(word)
        limits[place] = beyond = beyond if begins else limit
        if _follows_a_head(word):
            limit = place - 1
            beyond = beyond if _is_mark(word) else limit
    return limits


def is_possessive(words: Sequence[str], place: int) -> bool:
    """Whether a word belongs to the mark of a possessive: `'s`, which words found in a text have as `'` and
    `s`."""
    word = words[place].lower()
    return word in _POSSESSIVE or (word == "s" and place > 0 and words[place - 1] in _POSSESSIVE)


def _is_mark(word: str) -> bool:
    return not any(map(str.isalnum, word))


def _follows_a_head(word: str) -> bool:
    ends_here = word.lower() in _AFTER_THE_HEAD or _is_mark(word)
    return ends_here and word not in _POSSESSIVE and not _joins(word)


def _joins(word: str) -> bool:
    """Whether words on both sides of it are one name, as in `Jean - Luc` or `St . Petersburg`."""
    return word in _JOINING
