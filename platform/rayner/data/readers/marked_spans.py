"""What readers of annotation tools share: stretches of a text that somebody marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rayner.data.readers.base import Reading, entity_of, in_order, is_encodable
from rayner.data.readers.offsets import explain, holds
from rayner.data.readers.typed_rows import RowError
from rayner.data.schema import Document, Mention, Span

ENTITY = ("kb_id", "entity_id")
"""Fields of what a stretch means."""
_OURS = {"document_id", "mentions", "entity_types", "words", "sentences", "group", "annotated_types"}


class Marked(NamedTuple):
    """A stretch as a file has it: nothing of it has been looked at."""

    start: Any
    end: Any
    type: Any
    surface: Any = None
    """The text that was marked, where the file has it."""
    entity: Any = None
    """The id of what it means, where the file has one."""


def text_of(row: dict[str, Any]) -> str:
    """The text of a row; RowError where it has none."""
    text = row.get("text")
    if not isinstance(text, str):
        raise RowError("no field `text` with a text", "export the texts too")
    return text


def list_in(row: dict[str, Any], field: str) -> list[Any]:
    """A field that is a list, empty where the row has none; RowError where it is something else."""
    value = row.get(field)
    if not isinstance(value, list | None):
        raise RowError(f"`{field}` is no list", f'write "{field}": [...]')
    return value or []


def entity_in(row: Mapping[str, Any]) -> Any:
    """What a stretch means, where its row says so."""
    return next((row[name] for name in ENTITY if entity_of(str(row.get(name) or ""))), None)


def fields_beside(rows: Iterable[Any], known: Set[str], field: str) -> Iterator[str]:
    """What rows within a field hold and nobody reads, as it is counted."""
    for row in rows:
        if isinstance(row, dict) and not row.keys() <= known:
            yield from (f"field {field}.{name}" for name in row.keys() - known)


def is_ours(row: Mapping[str, Any]) -> bool:
    """Whether a row has fields of our own rows of documents, or of BINDER's."""
    return not _OURS.isdisjoint(row)


def add_marked(
    reading: Reading,
    where: str,
    document_id: str,
    text: str,
    marked: Iterable[Marked],
    words: Sequence[Span] | None = None,
) -> None:
    """Take a document with its mentions; what is none becomes a reject.

    Offsets that hold a marked text only if they count units of UTF-16, as a browser does, are read so, and
    with them all of the document.
    """
    # What no file can hold is rejected whole below; half a surrogate pair has no place to count to.
    given = list(marked) if is_encodable(text) else []
    places = _unit_places(text) if given else None
    spans = [_of_units(one, text, places) for one in given]
    if not any(
        span and text[one.start : one.end] != one.surface for one, span in zip(given, spans, strict=True)
    ):
        spans = [None] * len(given)
    each = zip(given, spans, strict=True)
    found = [_mention(one, span, text, where, document_id, reading) for one, span in each]
    linked = {replace(mention, entity_id=None) for mention in found if mention and mention.entity_id}
    mentions = in_order([m for m in dict.fromkeys(found) if m is not None and m not in linked])
    twice = sum(mention is not None for mention in found) - len(mentions)
    reading.repaired.update({"mention given twice": twice} if twice else {})
    reading.add(Document(document_id, text, mentions, None if words is None else tuple(words)), where)


def _mention(
    given: Marked, span: Span | None, text: str, where: str, document_id: str, reading: Reading
) -> Mention | None:
    start, end, type_, surface, entity = given
    entity = entity_of(str(entity)) if isinstance(entity, str | int) else None
    if not _has_offsets(given) or not isinstance(type_, str):
        what = f"no mention: from {start!r:.20} to {end!r:.20} of the type {type_!r:.40}"
        reading.reject(where, what, "a start, an end and a type are wanted", document_id)
        return None
    if span is not None:
        reading.repaired.update(["offsets that count UTF-16 units"] if span != (start, end) else [])
        return Mention(*span, type_, entity)
    if not isinstance(surface, str) or holds(text, start, end, surface, reading):
        return Mention(start, end, type_, entity)
    reading.reject(where, *explain(text, start, end, surface), document_id)
    return None


def _has_offsets(given: Marked) -> bool:
    return type(given.start) is int and type(given.end) is int


def _of_units(given: Marked, text: str, places: np.ndarray | None) -> Span | None:
    """The characters of a stretch that counts units of UTF-16, if they are the text that was marked."""
    start, end, _, surface, _ = given
    if places is None or not _has_offsets(given) or not 0 <= start < end <= places[-1]:
        return None
    first, after = np.searchsorted(places, (start, end)).tolist()
    return (first, after) if text[first:after] == surface else None


def _unit_places(text: str) -> np.ndarray | None:
    """The unit of UTF-16 before each character, and that of the end; None where units are characters."""
    wide = np.frombuffer(text.encode("utf-32-le"), np.uint32) > 0xFFFF
    return np.append(0, np.cumsum(1 + wide)) if wide.any() else None
