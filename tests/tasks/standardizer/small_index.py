"""A little knowledge base and a search that needs no model: cosines of counts of letters and their pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np

from rayner.config import IndexSettings
from rayner.data.schema import Entity
from rayner.retrieval.entity_table import entity_table
from rayner.retrieval.names import names_of

ENTITIES = (
    Entity("pg", "PostgreSQL", ("Postgres", "psql")),
    Entity("my", "MySQL"),
    Entity("an", "Android"),
    Entity("ws", "IBM WebSphere MQ", ("WebSphere MQ",)),
    Entity("ng", "nginx"),
    Entity("rh", "Red Hat Enterprise Linux", ("RHEL",)),
)


def encode(texts: Sequence[str]) -> np.ndarray:
    """[N, 256] unit vectors."""
    vectors = np.zeros((len(texts), 256), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        folded = f" {text.lower()} "
        for i in range(len(folded)):
            for width in (1, 2):
                row[crc32(folded[i : i + width].encode()) % 256] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@dataclass(frozen=True)
class Found:
    entity_id: str
    name: str
    score: float
    dense: float = 0.0
    lexical: float = 0.0
    matched: str = ""


@dataclass
class SmallIndex:
    """What `Standardizer` needs of an index; `searched` holds the strings of each search."""

    entities: Sequence[Entity] = ENTITIES
    searched: list[list[str]] = field(default_factory=list)
    settings: IndexSettings = field(default_factory=IndexSettings)
    dense: Any = field(default_factory=lambda: SimpleNamespace(distance="cosine"))

    def __post_init__(self) -> None:
        self.names = names_of(list(self.entities), self.settings)
        self.entities = entity_table(self.entities)

    def search(self, texts: Sequence[str], vectors: np.ndarray, k: int, weight: float) -> list[list[Any]]:
        self.searched.append(list(texts))
        own = {e.entity_id: e.name for e in self.entities}
        names = [(e.entity_id, name) for e in self.entities for name in (e.name, *e.aliases)]
        table = encode([name for _, name in names]) if names else np.zeros((0, 256), np.float32)
        answers = []
        for scores in vectors @ table.T:
            best: dict[str, Found] = {}
            for place in np.argsort(-scores, kind="stable"):
                id_, name = names[place]
                best.setdefault(id_, Found(id_, own[id_], float(scores[place]), matched=name))
            answers.append(list(best.values())[:k])
        return answers
