"""Mentions against the text that their offsets point at."""

from __future__ import annotations

from functools import lru_cache

from rayner.counted import counted
from rayner.data.readers.base import Reading

NEAR = 200
_SPACES = str.maketrans("\t\n\r", "   ")


def with_spaces(text: str) -> str:
    """The text with a space for each tab and line end, so that offsets stay."""
    return text.translate(_SPACES)


def holds(text: str, start: int, end: int, surface: str, reading: Reading) -> bool:
    """Whether `text[start:end]` is the annotated `surface`.

    Tabs and line ends count as spaces, as in brat; other differences in white space are counted as repaired.
    """
    found = text[start:end] if 0 <= start < end <= len(text) else ""
    if found == surface:
        return bool(found)
    if not found or found.split() != surface.split():
        return False
    if with_spaces(found) != surface:
        reading.repaired["white space of a mention's text differs"] += 1
    return True


def explain(text: str, start: int, end: int, surface: str) -> tuple[str, str]:
    """What is wrong with offsets that do not hold the annotated surface, and the hint."""
    what = f"offsets {start} {end} hold {_short(text[max(start, 0) : max(end, 0)])}, not {_short(surface)}"
    if end > len(text):
        size = counted(len(text), "character")
        what = f"offsets {start} {end} of {_short(surface)} end after the text of {size}"
    if 0 <= start < end:
        for reason, unlike in _COUNTS.items():
            if unlike(text, start, end) == surface:
                return what, f"the offsets {reason}: count characters (code points) from 0, end exclusive"
    near = text.find(surface, max(0, start - NEAR), max(0, end) + NEAR) if surface else -1
    if near >= 0:
        hint = " (do they count from 1?)" if near == start - 1 else ""
        hint = " (do they include the end?)" if (near, len(surface)) == (start, end - start + 1) else hint
        return what, f"it is at {near} {near + len(surface)}: correct the offsets{hint}"
    return what, "correct the offsets or the mention's text"


# Where offsets count something else, all mentions of a text are wrong: it is encoded once for them.
_in_utf_8 = lru_cache(maxsize=1)(str.encode)


@lru_cache(maxsize=1)
def _in_utf_16(text: str) -> bytes:
    return text.encode("utf-16-le")


@lru_cache(maxsize=1)
def _with_one_line_end(text: str) -> str:
    return text.replace("\r\n", "\n")


def _of_bytes(text: str, start: int, end: int) -> str:
    return _in_utf_8(text)[start:end].decode(errors="replace")


def _of_utf_16(text: str, start: int, end: int) -> str:
    return _in_utf_16(text)[2 * start : 2 * end].decode("utf-16-le", errors="replace")


_COUNTS = {
    "count UTF-8 bytes": _of_bytes,
    "count UTF-16 units": _of_utf_16,
    "count CRLF as one character": lambda text, start, end: _with_one_line_end(text)[start:end],
}


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
