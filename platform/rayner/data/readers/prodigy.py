"""Prodigy: a text a line, with its spans, tokens and the annotator's answer.

{"text": "...", "spans": [{"start": 0, "end": 3, "label": "PER"}], "tokens": [...], "answer": "accept"}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.readers.json_rows import ID, first_object, id_of, objects_of
from rayner.data.readers.marked_spans import (
    ENTITY,
    Marked,
    add_marked,
    entity_in,
    fields_beside,
    is_ours,
    list_in,
    text_of,
)
from rayner.data.readers.typed_rows import RowError
from rayner.data.schema import Span
from rayner.data.words import are_in_order

_FIELDS = {*ID, "text", "spans", "tokens", "answer"}
_OF_SPANS = {"start", "end", "label", "text", "token_start", "token_end", *ENTITY}


def matches(sample: Sample) -> bool:
    """Whether the first object has a text, and spans or the hash of a task."""
    row = first_object(sample)
    is_task = "_task_hash" in row or ("spans" in row and ("answer" in row or not is_ours(row)))
    return "text" in row and is_task


def read(unit: FileUnit) -> Reading:
    """The documents of a file; what was not accepted is left out and counted."""
    reading = Reading()
    for where, default_id, row in objects_of(unit, reading):
        answer = row.get("answer") or "accept"
        if answer != "accept":
            reading.ignored[f"row with the answer {answer!s:.20}"] += 1
            continue
        try:
            text, spans = text_of(row), list_in(row, "spans")
            words = _words(list_in(row, "tokens"), len(text))
        except RowError as error:
            reading.reject(where, error.what, error.hint)
            continue
        # Its own notes begin with an underscore.
        reading.ignored.update(f"field {name}" for name in row.keys() - _FIELDS if name[:1] != "_")
        reading.ignored.update(fields_beside(spans, _OF_SPANS, "spans"))
        add_marked(reading, where, id_of(row, default_id), text, map(_marked, spans), words)
    return reading


def _marked(span: Any) -> Marked:
    row = span if isinstance(span, dict) else {}
    return Marked(row.get("start"), row.get("end"), row.get("label"), row.get("text"), entity_in(row))


def _words(tokens: Sequence[Any], size: int) -> list[Span] | None:
    """None where they are not tokens of a text of that size, in order: words are found in the text then."""
    found = []
    for token in tokens:
        start, end = (token.get("start"), token.get("end")) if isinstance(token, dict) else (None, None)
        if type(start) is not int or type(end) is not int or not 0 <= start < end <= size:
            return None
        found.append((start, end))
    return found if found and are_in_order(found) else None
