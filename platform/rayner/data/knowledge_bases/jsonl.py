"""JSON lines: `{"entity_id", "name"}` and at will `aliases, type, description, parents, other_ids`."""

from __future__ import annotations

import json
from pathlib import Path

from rayner.data.json_lines import is_array, json_objects
from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import Columns, add_row, find_columns, unused_columns
from rayner.data.knowledge_bases.lines import read_lines
from rayner.data.readers.base import Sample, as_written
from rayner.data.readers.files import suffix
from rayner.errors import KnowledgeBaseError


def matches(sample: Sample) -> bool:
    """Whether the name says JSON lines, or the first line is a whole JSON object."""
    if suffix(sample.path) in (".jsonl", ".ndjson"):
        return not is_array(sample.lines)
    first = next((line for line in sample.lines if line.strip()), "")
    if not first.startswith("{"):
        return False
    try:
        return "data" not in json.loads(first)
    except (ValueError, RecursionError):
        return False


def read(path: Path, builder: Builder, columns: Columns) -> None:
    """One entity a line. A field that rows lack is empty; an alias column that no row has is an error."""
    seen: set[str] = set()
    hint = 'write {"entity_id": ..., "name": ...}'
    for _, where, row in json_objects(read_lines(path, builder), path, builder.reject, hint):
        seen.update(row)
        # Rows leave empty fields out, so only the id and the name have to be in each.
        asked = Columns(
            columns.entity_id,
            columns.name,
            *(None if asked not in row else asked for asked in _optional(columns)),
        )
        try:
            found = find_columns(asked, list(row), where)
        except KnowledgeBaseError as error:
            builder.reject(where, error.what, error.hint)
            continue
        for column in unused_columns(found, list(row)):
            builder.ignored[f"field {as_written(column)}"] += 1
        add_row(row, found, where, builder)
    for asked in _optional(columns):
        if asked is not None and asked not in seen:
            find_columns(columns, sorted(seen), str(path))


def _optional(columns: Columns) -> tuple[str | None, str | None, str | None]:
    return columns.aliases, columns.type, columns.description
