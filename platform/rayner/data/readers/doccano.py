"""doccano: a text a line, with its labels.

{"id": 1, "text": "...", "label": [[0, 3, "PER"]]}
{"id": 1, "text": "...", "entities": [{"start_offset": 0, "end_offset": 3, "label": "PER"}], "relations": []}
"""

from __future__ import annotations

import json
from typing import Any

from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.readers.json_rows import first_object, id_of, objects_of
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

_LABELS = ("label", "labels", "entities")
_OF_LABELS = {"id", "start", "end", "start_offset", "end_offset", "label", *ENTITY}


def matches(sample: Sample) -> bool:
    """Whether the first object has a text and a list of labels; a row of ours that it was given keeps its
    fields, with no mention."""
    row = first_object(sample)
    if is_ours(row) and row.get("mentions", True):
        return False
    labels = [row[name] for name in _LABELS if _is_labels(row.get(name))]
    is_labelled = any(labels) or not is_ours(row) or any(map(_is_labelled, sample.lines))
    return "text" in row and bool(labels) and is_labelled


def read(unit: FileUnit) -> Reading:
    """The documents of a file; relations and comments are counted as ignored."""
    reading = Reading()
    for where, default_id, row in objects_of(unit, reading):
        try:
            text, labels = text_of(row), [one for name in _LABELS for one in list_in(row, name)]
        except RowError as error:
            reading.reject(where, error.what, error.hint)
            continue
        others = row.keys() - {"id", "text", *_LABELS}
        reading.ignored.update(f"field {name}" for name in others if row[name])
        reading.ignored.update(fields_beside(labels, _OF_LABELS, "entities"))
        add_marked(reading, where, id_of(row, default_id), text, map(_marked, labels))
    return reading


def _is_labelled(line: str) -> bool:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and any(row.get(name) and _is_labels(row[name]) for name in _LABELS)


def _is_labels(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, list | dict) for one in value)


def _marked(label: Any) -> Marked:
    if isinstance(label, list) and len(label) == 3:
        return Marked(*label)
    row = label if isinstance(label, dict) else {}
    start, end = row.get("start_offset", row.get("start")), row.get("end_offset", row.get("end"))
    return Marked(start, end, row.get("label"), entity=entity_in(row))
