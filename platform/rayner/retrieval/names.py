"""The names of entities as rows: what an index makes findable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rayner.config import IndexSettings
from rayner.data.mention_strings import normal_form
from rayner.data.schema import Entity
from rayner.errors import KnowledgeBaseError
from rayner.retrieval.short_forms import split_short_form

NAMES_SCHEMA = pa.schema(
    [
        pa.field("text", pa.string(), nullable=False),
        pa.field("entity", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Found:
    """An entity that was found, and how well it matches.

    `name` is that of the entity, `matched` the one of its name and aliases that matches best. `dense` is a
    similarity (the cosine, or minus the distance), `lexical` the cosine of character n-grams, and `score` the
    two together: a weighted sum, or log odds by a combiner. `ranker` are the log odds of a re-ranker, which
    are then part of `score`; None without one.
    """

    entity_id: str
    name: str
    matched: str
    score: float
    dense: float
    lexical: float
    ranker: float | None = None


class Names:
    """The names of the entities, those of one entity side by side, in the order of the entities.

    Args:
        table: rows of `NAMES_SCHEMA`: a name and the number of its entity.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self.texts: pa.StringArray = _one_chunk(self.table["text"])
        self.entity: np.ndarray = _one_chunk(self.table["entity"]).to_numpy()
        """[N] int32, ascending."""

    def __reduce__(self) -> tuple[type[Names], tuple[pa.Table]]:
        # The columns are views of the table: each would be written once more.
        return Names, (self.table,)

    def __len__(self) -> int:
        return len(self.entity)

    def text(self, name: int) -> str:
        """The name with this number."""
        return self.texts[name].as_py()

    def entities_with(self, text: str) -> np.ndarray:
        """The numbers of the entities that have this name, ascending."""
        return np.unique(self.entity[np.asarray(pc.call_function("equal", [self.texts, pa.scalar(text)]))])

    def of_entities(self, kept: np.ndarray) -> Names:
        """The names of the entities in the mask [E], these numbered anew."""
        mask = kept[self.entity]
        number = (np.cumsum(kept) - 1).astype(np.int32)
        table = self.table.filter(pa.array(mask))
        return Names(table.set_column(1, NAMES_SCHEMA.field(1), pa.array(number[self.entity[mask]])))

    def followed_by(self, others: Names, entities: int) -> Names:
        """These names and then others, whose entities come after the `entities` of these."""
        moved = pa.array(others.entity + np.int32(entities), pa.int32())
        later = others.table.set_column(1, NAMES_SCHEMA.field(1), moved)
        return Names(pa.concat_tables([self.table, later]))


def names_of(entities: Sequence[Entity], settings: IndexSettings) -> Names:
    """The names of the entities: name, aliases, and the two halves of `Long Form (LF)`.

    Raises:
        KnowledgeBaseError: an empty name, an id that occurs twice, or more aliases than `max_aliases`.
    """
    seen: set[str] = set()
    texts: list[str] = []
    owner: list[int] = []
    for number, entity in enumerate(entities):
        if entity.entity_id in seen:
            raise KnowledgeBaseError(f"entity {entity.entity_id}", "occurs twice", "keep one of the two")
        seen.add(entity.entity_id)
        names = _names(entity, settings)
        texts += names
        owner += [number] * len(names)
    columns = [pa.array(texts, pa.string()), pa.array(owner, pa.int32())]
    return Names(pa.table(columns, schema=NAMES_SCHEMA))


def _names(entity: Entity, settings: IndexSettings) -> list[str]:
    where = f"entity {entity.entity_id}"
    if not entity.name.strip():
        raise KnowledgeBaseError(where, "has no name", "give it one, or leave it out")
    limit = settings.max_aliases
    if settings.aliases and limit is not None and len(entity.aliases) > limit:
        what = f"has {len(entity.aliases)} aliases, more than the {limit} allowed"
        raise KnowledgeBaseError(where, what, "raise max_aliases, or drop aliases of it")
    written = (entity.name, *entity.aliases) if settings.aliases else (entity.name,)
    names = dict.fromkeys(map(normal_form, written))
    names.pop("", None)
    if settings.abbreviations:
        names |= dict.fromkeys(half for name in names for half in split_short_form(name) or ())
    return list(names)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
