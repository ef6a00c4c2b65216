"""JSON of the ESAppMod data set (papers/002): entities with types, and mentions by entity.

`{"data": {"0": {"entity_id": 1, "entity_name": ..., "entity_type_name": ...}}}` names the entities,
`{"data": {"0": {"entity_id": 1, "mentions": [...]}}}` gives them aliases. Read together, they are one
knowledge base; of mentions alone, an entity's first is its name. Those of the id 0 are of no entity.
"""

from __future__ import annotations

from pathlib import Path

from rayner.data.json_lines import has_data, rows_under_data
from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import Columns
from rayner.data.knowledge_bases.lines import read_text
from rayner.data.readers.base import Sample, as_written
from rayner.errors import KnowledgeBaseError

_FIELDS = {"entity_id", "entity_name", "entity_type_name", "mentions", "mention"}


def matches(sample: Sample) -> bool:
    """Whether it is JSON with `data` and the fields of an entity or of its mentions."""
    start = "\n".join(sample.lines)
    has_fields = '"entity_name"' in start or ('"entity_id"' in start and '"mention' in start)
    return has_data(start) and has_fields


def read(path: Path, builder: Builder, _: Columns) -> None:
    """Entities or mentions; places are the keys of `data`."""
    rows = rows_under_data(read_text(path, builder), path, KnowledgeBaseError)
    for key, row in rows.items():
        where = f"{path}:data.{key}"
        if not isinstance(row, dict) or type(row.get("entity_id")) not in (int, str):
            builder.reject(where, "no `entity_id`", "give it the number of its entity")
            continue
        builder.ignored.update(f"field {as_written(name)}" for name in row if name not in _FIELDS)
        _add(row, where, builder)


def _add(row: dict, where: str, builder: Builder) -> None:
    entity_id = str(row["entity_id"])
    name, type_ = row.get("entity_name"), row.get("entity_type_name")
    mentions = row.get("mentions", row.get("mention", []))
    mentions = [mentions] if isinstance(mentions, str) else mentions
    if not isinstance(mentions, list) or not all(isinstance(mention, str) for mention in mentions):
        builder.reject(where, "the mentions are not a list of strings", "correct them", entity_id=entity_id)
    elif not isinstance(name, str | None) or not isinstance(type_, str | None):
        builder.reject(where, "a name or type that is not a string", "put it in quotes", entity_id=entity_id)
    elif entity_id == "0" and name is None:
        builder.ignored["mention without an entity id"] += len(mentions)
    else:
        builder.add(entity_id, name, where, aliases=mentions, type=type_)
