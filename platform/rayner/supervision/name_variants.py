"""Other ways to write a name: what people do to names that no list of aliases holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import regex

from rayner.config import VariantSettings

SHORTEST_MISSPELT = 4
"""In a shorter word another letter makes another word."""
LONGEST_ACRONYM = 6

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_SEPARATOR = regex.compile(r"(?<=[\p{L}\p{N}])[\s\-_/]+(?=[\p{L}\p{N}])")
_MARKS = regex.compile(r"[^\p{L}\p{N}\p{M}\s]+")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")

Draw = np.random.Generator


def vary(
    name: str, settings: VariantSettings, rng: Draw, prefix: str | None = None, always: bool = False
) -> str:
    """The name, or at the rates of the settings one variant of it.

    Args:
        prefix: a word that other names of the entity start with.
        always: a variant, of a kind drawn in proportion to the rates; the name where none changes it.
    """
    draw = rng.random() * (settings.total if always else 1)
    rates = (
        (settings.misspelling, lambda: misspell(name, rng)),
        (settings.acronym, lambda: abbreviate(name, rng)),
        (settings.reordering, lambda: reorder(name, rng)),
        (settings.punctuation, lambda: punctuate(name, rng)),
        (settings.prefix, lambda: move_prefix(name, prefix, settings.prefixes)),
    )
    for rate, variant in rates:
        if draw < rate:
            return variant().strip() or name
        draw -= rate
    return name


def misspell(name: str, rng: Draw) -> str:
    """One letter left out, doubled, exchanged for the next, or for a neighbour on the keyboard."""
    words = [m.span() for m in _WORD.finditer(name) if len(m.group()) >= SHORTEST_MISSPELT]
    if not words:
        return name
    start, end = words[rng.integers(len(words))]
    # The first letter of a word is seldom wrong.
    at = int(rng.integers(start + 1, end))
    before, letter, after = name[:at], name[at], name[at + 1 :]
    match rng.integers(4):
        case 0:
            return before + after
        case 1:
            return before + letter + letter + after
        case 2 if at + 1 < end:
            return before + name[at + 1] + letter + name[at + 2 :]
    neighbours = _neighbours(letter)
    return before + neighbours[rng.integers(len(neighbours))] + after if neighbours else before + after


def abbreviate(name: str, rng: Draw) -> str:
    """The initials of two to six words: of all, or of all but the first or the last."""
    words = _WORD.findall(name)
    if not 2 <= len(words) <= LONGEST_ACRONYM:
        return name
    initials = "".join(word[0] for word in words).upper()
    whole = len(words) == 2 or rng.random() < 0.7
    if whole:
        return initials
    return f"{words[0]} {initials[1:]}" if rng.random() < 0.5 else f"{initials[:-1]} {words[-1]}"


def reorder(name: str, rng: Draw) -> str:
    """The words turned around at one place: `Internet Information Server` as `Server Internet Information`.

    Some have a comma there: `Server, Internet Information`.
    """
    words = name.split()
    if len(words) < 2:
        return name
    at = int(rng.integers(1, len(words)))
    glue = ", " if rng.random() < 0.3 else " "
    return glue.join((" ".join(words[at:]), " ".join(words[:at])))


def punctuate(name: str, rng: Draw) -> str:
    """What parts two words exchanged or left out, or marks left out, or the case changed."""
    gaps = [m.span() for m in _SEPARATOR.finditer(name)]
    changes: list[Callable[[], str]] = [name.lower, name.upper]
    if gaps:
        start, end = gaps[rng.integers(len(gaps))]
        others = [glue for glue in (" ", "-", "_", "") if glue != name[start:end]]
        changes += [lambda: name[:start] + others[rng.integers(len(others))] + name[end:]] * 3
    if _MARKS.search(name):
        changes += [lambda: " ".join(_MARKS.sub(" ", name).split())] * 2
    return changes[rng.integers(len(changes))]() or name


def move_prefix(name: str, prefix: str | None, prefixes: Sequence[str]) -> str:
    """The name without the vendor that it starts with, or else with the one of its entity."""
    start = first_prefix(name, prefixes)
    if start is not None:
        return name[len(start) :].lstrip()
    return name if prefix is None else f"{prefix} {name}"


def first_prefix(name: str, prefixes: Sequence[str]) -> str | None:
    """The longest prefix that the name starts with, case ignored, as it is written there; None is none."""
    folded = name.casefold()
    fitting = [p for p in prefixes if folded.startswith(f"{p.casefold()} ") and name[len(p) :].strip()]
    return name[: len(max(fitting, key=len))] if fitting else None


def _neighbours(letter: str) -> str:
    for row in _ROWS:
        at = row.find(letter.lower())
        if at >= 0:
            beside = row[max(0, at - 1) : at] + row[at + 1 : at + 2]
            return beside.upper() if letter.isupper() else beside
    return ""
