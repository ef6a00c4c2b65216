"""The entities to learn from as units: one for each shard of examples, so that many workers make them."""

from __future__ import annotations

from typing import NamedTuple

from rayner.data.example_shards import fingerprint
from rayner.retrieval.entity_table import EntityTable
from rayner.tasks.base import Unit


class EntityRange(NamedTuple):
    """Entities of a table, from one number to before another."""

    begin: int
    end: int

    def of(self, entities: EntityTable) -> EntityTable:
        """The entities of the table that it means."""
        return entities[self.begin : self.end]

    def __str__(self) -> str:
        return f"entities {self.begin + 1} to {self.end} of the knowledge base"


def units_of(entities: EntityTable) -> list[Unit]:
    """The entities, in order: each unit has as many as fill a shard."""
    rest, begin, units = iter(entities), 0, list[Unit]()
    while begin < len(entities):
        found = fingerprint(rest, of_shard=True)
        end = begin + len(found.sizes)
        units.append(Unit(EntityRange(begin, end), found.digest, found.sizes))
        begin = end
    return units
