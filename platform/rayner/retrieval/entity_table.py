"""Entities in an Arrow table, which a memory map may hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, islice, pairwise, starmap
from typing import Any, TypeVar, overload

import numpy as np
import pyarrow as pa

from rayner.data.schema import ENTITY_SCHEMA, Entity

_ROWS = 8192
_MOST_FOUND = 4

T = TypeVar("T")


class EntityTable(Sequence[Entity]):
    """The entities of a table of `ENTITY_SCHEMA`, each made when it is asked for.

    A slice without a step is a view: it holds, and pickles, the memory of the whole table.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._found: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return self.table.num_rows

    @overload
    def __getitem__(self, index: int) -> Entity: ...
    @overload
    def __getitem__(self, index: slice) -> EntityTable: ...
    def __getitem__(self, index: int | slice) -> Entity | EntityTable:
        if isinstance(index, slice):
            rows = range(len(self))[index]
            if rows.step == 1:
                return EntityTable(self.table.slice(rows.start, len(rows)))
            return EntityTable(self.table.take(pa.array(rows, pa.int64())))
        (row,) = self.table.slice(range(len(self))[index], 1).to_pylist()
        return Entity(**row | {name: tuple(row[name] or ()) for name in ("aliases", "other_ids")})

    def __iter__(self) -> Iterator[Entity]:
        for begin in range(0, len(self), _ROWS):
            yield from _entities(self.table.slice(begin, _ROWS))

    @cached_property
    def digest(self) -> str:
        """What tells the ids and names of one knowledge base from those of another."""
        digest = hashlib.sha256()
        for text in chain(self.table["entity_id"].to_pylist(), self.texts(aliases=True)):
            digest.update(f"{text}\0".encode())
        return digest.hexdigest()[:12]

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

    def of_ids(self, ids: Iterable[str]) -> Iterator[Entity]:
        """Those of the entities that are in the table."""
        rows = [self.numbers[id_] for id_ in ids if id_ in self.numbers]
        return _entities(self.table.take(pa.array(rows, pa.int64())))

    def names_of(self, ids: Iterable[str]) -> dict[str, str]:
        """The names of those of the entities that are in the table, by id."""
        numbers = {id_: self.numbers[id_] for id_ in ids if id_ in self.numbers}
        return {id_: self.table["name"][number].as_py() for id_, number in numbers.items()}

    def texts(self, aliases: bool) -> Iterator[str]:
        """The name of each entity, and with `aliases` then all aliases."""
        for begin in range(0, len(self), _ROWS):
            rows = self.table.slice(begin, _ROWS)
            yield from rows["name"].to_pylist()
            if aliases:
                yield from rows["aliases"].combine_chunks().flatten().to_pylist()

    def once(self, key: Hashable, find: Callable[[EntityTable], T]) -> T:
        """What is found in the table, and kept for the next times that the key is asked for."""
        if key not in self._found:
            while len(self._found) >= _MOST_FOUND:
                self._found.pop(next(iter(self._found)))
            self._found[key] = find(self)
        return self._found[key]

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
    while rows := list(islice(rest, _ROWS)):
        columns = [
            pa.array([getattr(row, field.name) for row in rows], field.type) for field in ENTITY_SCHEMA
        ]
        parts.append(pa.Table.from_arrays(columns, schema=ENTITY_SCHEMA))
    return EntityTable(pa.concat_tables(parts).combine_chunks())


def _entities(rows: pa.Table) -> Iterator[Entity]:
    return starmap(Entity, zip(*(_values(rows[name]) for name in ENTITY_SCHEMA.names), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; lists as tuples, none as an empty one."""
    if not pa.types.is_list(column.type):
        return column.to_pylist()
    lists = column.combine_chunks()
    values = lists.flatten().to_pylist()
    ends = accumulate(lists.value_lengths().fill_null(0).to_pylist(), initial=0)
    return [tuple(values[begin:end]) for begin, end in pairwise(ends)]
