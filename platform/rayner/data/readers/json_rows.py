"""JSON lines, each a document in a form of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from rayner.data.json_lines import json_objects
from rayner.data.readers import files
from rayner.data.readers.base import Reading, Sample, Unit
from rayner.data.readers.typed_rows import RowError
from rayner.data.schema import Document


def has_fields(sample: Sample, *names: str) -> bool:
    """Whether the first line is a JSON object with these fields."""
    first = next((line for line in sample.lines if line.strip()), "")
    if not first.startswith("{"):
        return False
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and all(name in row for name in names)


def read_rows(
    unit: Unit, fields: Collection[str], document: Callable[[dict[str, Any], str], Document]
) -> Reading:
    """The documents of a file, one a line; a line that is none is a reject, other fields are counted.

    Args:
        fields: those that `document` reads.
        document: a row and the id of one without an id -> the document; raises RowError.
    """
    reading = Reading()
    (path,) = unit.paths
    lines = enumerate(files.split_lines(files.read_text(path, reading)), 1)
    for number, where, row in json_objects(lines, path, reading.reject):
        try:
            found = document(row, f"{unit.name}:{number}")
        except RowError as error:
            reading.reject(where, error.what, error.hint)
            continue
        for name in row.keys() - fields:
            reading.ignored[f"field {name}"] += 1
        reading.add(found, where)
    return reading
