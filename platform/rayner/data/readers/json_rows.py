"""JSON objects, a line each or in one array, each a document in a form of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from rayner.data.json_lines import ONE_A_LINE, is_array, json_objects, whole_json
from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.readers.typed_rows import RowError
from rayner.data.schema import Document
from rayner.errors import CorpusError

ID = ("id", "document_id")
"""Fields of the id of a document; tools keep the second of rows that `corpus convert` has written."""
LONG_BYTES, LONGEST_BYTES = 1 << 24, 1 << 29
"""Of a file whose first object is longer than a sample, what is looked at; and then."""


def has_fields(sample: Sample, *names: str) -> bool:
    """Whether the first line is a JSON object with these fields."""
    return not is_array(sample.lines) and all(name in first_object(sample) for name in names)


def first_object(sample: Sample) -> Mapping[str, Any]:
    """The first line, or the first element of an array; empty where it is no JSON object."""
    found = _first_object(sample)
    if len(sample.lines) == 1 or is_array(sample.lines):
        for size in (LONG_BYTES, LONGEST_BYTES):
            if found is None and (size == LONG_BYTES or sample.path.stat().st_size > LONG_BYTES):
                found = _first_object(files.sample(sample.path, size))
    return found or {}


def _first_object(sample: Sample) -> dict[str, Any] | None:
    """None where it is no JSON, perhaps because it goes on behind the sample."""
    text = next((line for line in sample.lines if line.strip()), "")
    if is_array(sample.lines):
        text = "\n".join(sample.lines).partition("[")[2].lstrip()
    if not text.startswith("{"):
        return {}
    try:
        row, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return row


def objects_of(unit: FileUnit, reading: Reading) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Of each object of a file: where it is, the id of a document without an `id`, and itself.

    That is its `document_id`, if no other has it: rows may be the sentences of a document. What is no object
    is rejected.

    Raises:
        CorpusError: an array that is no JSON.
    """
    (path,) = unit.paths
    text = files.read_text(path, reading)
    if is_array([text[:1000]]):
        elements = enumerate(whole_json(text, path, CorpusError), 1)
        rows = [(number, f"{path}: object {number}", row) for number, row in elements]
    else:
        rows = list(json_objects(enumerate(files.split_lines(text), 1), path, reading.reject))
    times = Counter(_named(row, "document_id") for *_, row in rows)
    for number, where, row in rows:
        if isinstance(row, dict):
            own = _named(row, "document_id")
            yield where, own if own and times[own] == 1 else f"{unit.name}:{number}", row
        else:
            reading.reject(where, "not a JSON object", ONE_A_LINE)


def id_of(row: Mapping[str, Any], default_id: str) -> str:
    """The `id` of a row, a string or a number."""
    return _named(row, "id") or default_id


def _named(row: Any, field: str) -> str | None:
    value = row.get(field) if isinstance(row, dict) else None
    return str(value) if type(value) in (str, int) and value != "" else None


def read_rows(
    unit: FileUnit, fields: Collection[str], document: Callable[[dict[str, Any], str], Document]
) -> Reading:
    """The documents of a file; a row that is none is a reject, other fields are counted.

    Args:
        fields: those that `document` reads.
        document: a row and the id of one without an id -> the document; raises RowError.
    """
    reading = Reading()
    for where, default_id, row in objects_of(unit, reading):
        try:
            found = document(row, default_id)
        except RowError as error:
            reading.reject(where, error.what, error.hint)
            continue
        for name in row.keys() - fields:
            reading.ignored[f"field {name}"] += 1
        reading.add(found, where)
    return reading
