"""Which column of a row is which field of an entity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from rayner.data.knowledge_bases.builder import Builder, Repeats
from rayner.errors import KnowledgeBaseError

SEPARATOR = "|"
"""What parts aliases in one cell."""

KNOWN = {
    "entity_id": ("entity_id", "id", "entityid", "identifier", "concept_id", "code"),
    "name": ("name", "entity_name", "label", "preferred_name", "title", "term"),
    "aliases": ("aliases", "alias", "synonyms", "synonym", "alternative_names"),
    "type": ("type", "entity_type", "entity_type_name", "category"),
    "description": ("description", "definition"),
}
"""The names under which each field is found, in any case, where no column is named."""

FLAGS = {
    "entity_id": "--id-column",
    "name": "--name-column",
    "aliases": "--alias-column",
    "type": "--type-column",
    "description": "--description-column",
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The column of each field; None is found by its name."""

    entity_id: str | None = None
    name: str | None = None
    aliases: str | None = None
    type: str | None = None
    description: str | None = None


def find_columns(columns: Columns, present: Sequence[str], where: str) -> Columns:
    """The columns among those that are present.

    Raises:
        KnowledgeBaseError: a named column is not there, or none for the id or the name, with the nearest; or
            one is there twice.
    """
    found, fault = _find(columns, tuple(present))
    if fault:
        raise KnowledgeBaseError(where, *fault)
    return found


def add_row(
    row: Mapping[str, Any], columns: Columns, where: str, builder: Builder, repeats: Repeats = "never"
) -> None:
    """Read a row (JSON object, Parquet row, CSV line); one that does not fit the schema becomes a reject.

    Ids may be integers; aliases, `parents` and `other_ids` are lists, or strings in which `|` parts them.
    """
    entity_id, name = written_id(row.get(columns.entity_id or "")), row.get(columns.name or "")
    aliases, others = parted(row.get(columns.aliases or "")), _ids(parted(row.get("other_ids")))
    rest = [row.get(column) if column else None for column in (columns.type, columns.description)]
    parents = _ids(parted(row.get("parents")))
    fault = ""
    if not isinstance(entity_id, str | None):
        fault = f"the id {entity_id!r} is not a string"
    elif not isinstance(name, str | None):
        fault = f"the name {name!r} is not a string"
    elif not all(isinstance(value, str | None) for value in rest):
        fault = "a type or description that is not a string"
    elif not _strings(aliases):
        fault = f"the aliases {str(aliases)[:60]} are not a list of strings"
    elif not _strings(parents):
        fault = "the parents are not a list of ids"
    elif not _strings(others):
        fault = f"the other_ids {str(others)[:60]} are not a list of ids"
    if fault:
        named = None if entity_id is None else str(entity_id)
        builder.reject(where, fault, "correct the row", entity_id=named)
        return
    builder.add(
        entity_id or "",
        name or "",
        where,
        aliases=aliases,
        type=rest[0],
        description=rest[1],
        parents=parents,
        other_ids=others,
        repeats=repeats,
    )


def unused_columns(columns: Columns, present: Sequence[str]) -> list[str]:
    """The columns that no field takes."""
    used = {columns.entity_id, columns.name, columns.aliases, columns.type, columns.description}
    return [column for column in present if column not in used | {"parents", "other_ids"}]


def known_column(field: str, present: Iterable[str]) -> str | None:
    """The column that holds a field by its name; None where there is none."""
    by_name = {column.strip().lower(): column for column in reversed(list(present))}
    return next((by_name[name] for name in KNOWN[field] if name in by_name), None)


@lru_cache(maxsize=1024)
def _find(columns: Columns, present: tuple[str, ...]) -> tuple[Columns, tuple[str, str] | None]:
    found: dict[str, str | None] = {}
    listed = ", ".join(map(repr, present))
    for field, known in KNOWN.items():
        wanted = getattr(columns, field)
        if wanted is not None:
            if wanted not in present:
                return columns, (f"no column {wanted!r}", f"{_nearest([wanted], present)}there are {listed}")
            found[field] = wanted
            continue
        found[field] = known_column(field, present)
        if found[field] is None and field in ("entity_id", "name"):
            hint = f"{_nearest(known, present)}name it with {FLAGS[field]}; there are {listed}"
            return columns, (f"no column `{field}`", hint)
    if twice := next((column for column in found.values() if column and present.count(column) > 1), None):
        return columns, (f"{present.count(twice)} columns {twice!r}", "give each a name of its own")
    return Columns(**found), None


def _nearest(wanted: Sequence[str], present: Sequence[str]) -> str:
    lowered = {column.strip().lower(): column for column in present}
    for name in wanted:
        for near in get_close_matches(name.lower(), lowered, 1):
            return f"the nearest is {lowered[near]!r}; "
    return ""


def parted(value: Any) -> Any:
    """The values of a cell that a string parts by `|`; another value as it is, and none for an empty one."""
    return value.split(SEPARATOR) if value and isinstance(value, str) else value or []


def written_id(value: Any) -> Any:
    """An integer as the id that it is; another value as it is."""
    return str(value) if type(value) is int else value


def _ids(values: Any) -> Any:
    return [written_id(value) for value in values] if isinstance(values, list | tuple) else values


def _strings(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)
