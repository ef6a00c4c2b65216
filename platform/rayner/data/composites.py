"""Composite mentions, which name several entities at once: `breast and ovarian cancer`."""

from __future__ import annotations

from collections.abc import Iterator

import regex

MOST_PARTS = 8
"""Of a longer list no reading is given."""
_MOST_SHARED = 4
"""Words that the parts may share."""
_SEPARATOR = regex.compile(r"\s*,?\s+(?:and/or|and|or)\s+|\s*[,/&]\s*", regex.IGNORECASE)


def readings(text: str) -> list[tuple[str, ...]]:
    """The ways in which a string may name several things, a string for each of them; none without a list.

    The parts of a list joined by `and`, `or`, `,`, `/` or `&` are taken as they are, with the last words of
    the last part shared (`breast and ovarian cancer`), or the first words of the first one (`cancer of the
    breast and ovary`). Which of them is meant, or whether any is, the string alone does not say.
    """
    if _SEPARATOR.search(text) is None:
        return []
    parts = [part for part in _SEPARATOR.split(text) if part]
    if not 2 <= len(parts) <= MOST_PARTS or not all(any(map(str.isalnum, part)) for part in parts):
        return []
    return list(dict.fromkeys(_readings(parts)))


def _readings(parts: list[str]) -> Iterator[tuple[str, ...]]:
    yield tuple(parts)
    first, last = parts[0].split(), parts[-1].split()
    for count in range(1, min(len(last), _MOST_SHARED + 1)):
        end = " ".join(last[-count:])
        yield (*(f"{part} {end}" for part in parts[:-1]), parts[-1])
    for count in range(1, min(len(first), _MOST_SHARED + 1)):
        start = " ".join(first[:count])
        yield (parts[0], *(f"{start} {part}" for part in parts[1:]))
