"""Short forms that a knowledge base itself explains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import regex

from rayner.data.mention_strings import composed
from rayner.data.schema import Entity

LONGEST = 10
"""Characters of the longest short form, as in Schwartz and Hearst (2003)."""

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_IN_BRACKETS = regex.compile(r"[(\[](?P<short>[^()\[\]]{2,10})[)\]]$")


def is_short_form(short: str, long: str) -> bool:
    """Whether `short` may abbreviate `long`: its letters stand in it in order, and both begin alike.

    The rule of Schwartz and Hearst (2003), A simple algorithm for identifying abbreviation definitions. That
    both begin alike, and that the short form has two capitals and is no part of the long one, keeps out plain
    words and other spellings.
    """
    letters = _letters(short)
    return letters is not None and _Long.of(long).has(short, letters)


def split_short_form(name: str) -> tuple[str, str] | None:
    """`("Long Form", "LF")` of `Long Form (LF)`; None where the brackets hold no abbreviation of the rest."""
    # From there on it can only be the end: one that is sought from the start is tried everywhere.
    match = _IN_BRACKETS.search(name, max(0, len(name) - LONGEST - 2))
    if match is None or not is_short_form(match["short"], long := name[: match.start()].rstrip()):
        return None
    return long, match["short"]


def expansions(entities: Iterable[Entity]) -> dict[str, str]:
    """Short form -> long form, for each short form that only one entity of the knowledge base has.

    A short form is an alias that abbreviates another name of its entity, or is in brackets after it; the
    long form is the name where it abbreviates that, else the first alias that it abbreviates. Nor may another
    entity be called so without an explanation.
    """
    found: dict[str, str | None] = {}
    unexplained: set[str] = set()
    for entity in entities:
        names = [*map(composed, (entity.name, *entity.aliases))]
        explained = _explained(names)
        for short, long in explained.items():
            found[short] = None if short in found else long
        short = (name for name in names if len(name) <= LONGEST and name not in explained)
        unexplained.update(filter(_letters, short))
    return {short: long for short, long in found.items() if long is not None and short not in unexplained}


def expand(text: str, known: Mapping[str, str]) -> str:
    """The text with the long form of each abbreviation among its words; one that is all of it stays."""
    if text.strip() in known:
        return text
    return _WORD.sub(lambda match: known.get(match.group(), match.group()), text)


def _explained(names: Sequence[str]) -> dict[str, str]:
    """The long form of each short form among the names of an entity."""
    # A short form has few letters and no space: most names need not be compared with all others.
    short_names = [name for name in names if len(name) <= LONGEST and " " not in name]
    found: dict[str, str] = {}
    for name in names:
        if split := split_short_form(name):
            found.setdefault(split[1], split[0])
    longs: dict[str, list[_Long]] = {}
    for name in names:
        if " " in name and (long := _Long.of(name)).lower:
            longs.setdefault(long.lower[0], []).append(long)
    for short in short_names:
        letters = _letters(short) if _WORD.fullmatch(short) and short not in found else None
        if letters is not None:
            fitting = (long.name for long in longs.get(letters[0], ()) if long.has(short, letters))
            if (long := next(fitting, None)) is not None:
                found[short] = long
    return found


class _Long(NamedTuple):
    """A name that may be a long form, in lower case, and that without spaces."""

    name: str
    lower: str
    joined: str

    @classmethod
    def of(cls, name: str) -> _Long:
        lower = name.lower()
        return cls(name, lower, lower.replace(" ", ""))

    def has(self, short: str, letters: Sequence[str]) -> bool:
        """Whether it begins with the first of the letters and has the others in order, but not together."""
        if not self.lower.startswith(letters[0]) or short.lower() in self.joined:
            return False
        place = 0
        for letter in letters[1:]:
            place = self.lower.find(letter, place + 1)
            if place < 0:
                return False
        return True


def _letters(short: str) -> list[str] | None:
    """The letters and digits of a short form in lower case; None where it can be none."""
    letters = [c for c in short.lower() if c.isalnum()]
    if not 2 <= len(letters) <= len(short) <= LONGEST or sum(c.isupper() for c in short) < 2:
        return None
    return None if " " in short else letters
