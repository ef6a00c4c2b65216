"""Short forms that a knowledge base itself explains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import regex

from rayner.data.schema import Entity

LONGEST = 10
"""Characters of the longest short form, as in Schwartz and Hearst (2003)."""

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_WITH_SHORT_FORM = regex.compile(r"^(?P<long>.*[\p{L}\p{N}].*?)\s*[(\[](?P<short>[^()\[\]]{2,10})[)\]]$")


def is_short_form(short: str, long: str) -> bool:
    """Whether `short` may abbreviate `long`: its letters stand in it in order, and both begin alike.

    The rule of Schwartz and Hearst (2003), A simple algorithm for identifying abbreviation definitions. That
    both begin alike, and that the short form has two capitals and is no part of the long one, keeps out plain
    words and other spellings.
    """
    letters = [c for c in short.lower() if c.isalnum()]
    if not 2 <= len(letters) <= len(short) <= LONGEST or sum(c.isupper() for c in short) < 2:
        return False
    text = long.lower()
    if " " in short or not text.startswith(letters[0]) or short.lower() in text.replace(" ", ""):
        return False
    place = 0
    for letter in letters[1:]:
        place = text.find(letter, place + 1)
        if place < 0:
            return False
    return True


def split_short_form(name: str) -> tuple[str, str] | None:
    """`("Long Form", "LF")` of `Long Form (LF)`; None where the brackets hold no abbreviation of the rest."""
    match = _WITH_SHORT_FORM.match(name)
    if match is None or not is_short_form(match["short"], match["long"]):
        return None
    return match["long"], match["short"]


def expansions(entities: Iterable[Entity]) -> dict[str, str]:
    """Short form -> long form, for each short form that only one entity of the knowledge base has.

    A short form is an alias that abbreviates another name of its entity, or is in brackets after it; the
    long form is the name where it abbreviates that, else the first alias that it abbreviates.
    """
    found: dict[str, str | None] = {}
    for entity in entities:
        for short, long in _explained(entity).items():
            found[short] = None if short in found else long
    return {short: long for short, long in found.items() if long is not None}


def expand(text: str, known: Mapping[str, str]) -> str:
    """The text with the long form of each abbreviation among its words; one that is all of it stays."""
    if text.strip() in known:
        return text
    return _WORD.sub(lambda match: known.get(match.group(), match.group()), text)


def _explained(entity: Entity) -> dict[str, str]:
    names = (entity.name, *entity.aliases)
    # A short form has few letters and no space: most names need not be compared with all others.
    short_names = [name for name in names if len(name) <= LONGEST and " " not in name]
    found: dict[str, str] = {}
    for name in names:
        if split := split_short_form(name):
            found.setdefault(split[1], split[0])
    for short in short_names:
        if _WORD.fullmatch(short) and short not in found:
            long = next((name for name in names if " " in name and is_short_form(short, name)), None)
            if long is not None:
                found[short] = long
    return found
