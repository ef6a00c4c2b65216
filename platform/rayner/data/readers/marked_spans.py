"""What readers of annotation tools share: stretches of a text that somebody marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rayner.data.readers.base import Reading, in_order, is_encodable
from rayner.data.readers.offsets import explain, holds
from rayner.data.readers.typed_rows import RowError
from rayner.data.schema import Document, Mention, Span


class Marked(NamedTuple):
    """A stretch as a file has it: nothing of it has been looked at."""

    start: Any
    end: Any
    type: Any
    surface: Any = None
    """The text that was marked, where the file has it."""


def text_of(row: dict[str, Any], field: str = "text") -> str:
    """The text of a row; RowError where the field is none."""
    text = row.get(field)
    if not isinstance(text, str):
        raise RowError(f"no field `{field}` with a text", "export the texts too")
    return text


def list_in(row: dict[str, Any], field: str) -> list[Any]:
    """A field that is a list, empty where the row has none; RowError where it is something else."""
    value = row.get(field)
    if not isinstance(value, list | None):
        raise RowError(f"`{field}` is no list", f'write "{field}": [...]')
    return value or []


def add_marked(
    reading: Reading,
    where: str,
    document_id: str,
    text: str,
    marked: Iterable[Marked],
    words: Sequence[Span] | None = None,
) -> None:
    """Take a document with its mentions; what is none becomes a reject."""
    # What no file can hold is rejected whole below; half a surrogate pair has no place to count to.
    readable = marked if is_encodable(text) else ()
    found = [_mention(one, text, where, document_id, reading) for one in readable]
    mentions = in_order([mention for mention in found if mention is not None])
    reading.add(Document(document_id, text, mentions, None if words is None else tuple(words)), where)


def _mention(given: Marked, text: str, where: str, document_id: str, reading: Reading) -> Mention | None:
    start, end, type_, surface = given
    if type(start) is not int or type(end) is not int or not isinstance(type_, str):
        what = f"no mention: from {start!r:.20} to {end!r:.20} of the type {type_!r:.40}"
        reading.reject(where, what, "a start, an end and a type are wanted", document_id)
        return None
    if not isinstance(surface, str) or holds(text, start, end, surface, reading):
        return Mention(start, end, type_)
    # A browser counts so.
    first, after = (_characters(text, place) for place in (start, end))
    if start >= 0 and surface and text[first:after] == surface:
        reading.repaired["offsets that count UTF-16 units"] += 1
        return Mention(first, after, type_)
    reading.reject(where, *explain(text, start, end, surface), document_id)
    return None


def _characters(text: str, units: int) -> int:
    """How many characters the first so many units of UTF-16 are."""
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="replace"))
