"""Entities in an Arrow table, which a memory map may hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import islice
from typing import Any, overload

import numpy as np
import pyarrow as pa

from rayner.data.schema import ENTITY_SCHEMA, Entity

_ROWS = 8192


class EntityTable(Sequence[Entity]):
    """The entities of a table of `ENTITY_SCHEMA`, each made when it is asked for."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return self.table.num_rows

    @overload
    def __getitem__(self, index: int) -> Entity: ...
    @overload
    def __getitem__(self, index: slice) -> EntityTable: ...
    def __getitem__(self, index: int | slice) -> Entity | EntityTable:
        if isinstance(index, slice):
            return EntityTable(self.table.take(pa.array(range(*index.indices(len(self))), pa.int64())))
        (row,) = self.table.slice(range(len(self))[index], 1).to_pylist()
        return _entity(row)

    def __iter__(self):
        for batch in self.table.to_batches(_ROWS):
            yield from map(_entity, batch.to_pylist())

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The place of each entity id."""
        return {id_: number for number, id_ in enumerate(self.table["entity_id"].to_pylist())}

    def entity_id(self, number: int) -> str:
        """The id of an entity."""
        return self.table["entity_id"][number].as_py()

    def name(self, number: int) -> str:
        """The name of an entity."""
        return self.table["name"][number].as_py()

    def names_of(self, ids: Iterable[str]) -> dict[str, str]:
        """The names of those of the entities that are in the table, by id."""
        numbers = {id_: self.numbers[id_] for id_ in ids if id_ in self.numbers}
        return {id_: self.table["name"][number].as_py() for id_, number in numbers.items()}

    def where(self, kept: np.ndarray) -> EntityTable:
        """The entities in the mask [E]."""
        return EntityTable(self.table.filter(pa.array(kept)).combine_chunks())

    def followed_by(self, others: EntityTable) -> EntityTable:
        """These entities and then others."""
        return EntityTable(pa.concat_tables([self.table, others.table]).combine_chunks())


def entity_table(entities: Iterable[Entity]) -> EntityTable:
    """The entities in a table."""
    rest = iter(entities)
    parts = [ENTITY_SCHEMA.empty_table()]
    while rows := [asdict(entity) for entity in islice(rest, _ROWS)]:
        parts.append(pa.Table.from_pylist(rows, schema=ENTITY_SCHEMA))
    return EntityTable(pa.concat_tables(parts).combine_chunks())


def _entity(row: dict[str, Any]) -> Entity:
    lists = {name: tuple(row[name] or ()) for name in ("aliases", "other_ids")}
    return Entity(**{**row, **lists})
