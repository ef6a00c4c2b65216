"""What reading a knowledge base yields, and what a format is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rayner.data.knowledge_bases.builder import Builder, Reject, Repeat
from rayner.data.knowledge_bases.fields import Columns
from rayner.data.readers.base import Sample
from rayner.data.schema import Entity


@dataclass(slots=True)
class KnowledgeBase:
    """The entities of a knowledge base, and all that was not read as it stood.

    `places` says where each entity was found, `parents` (entity id -> ids) what an ontology says of it.
    `repeats` are the ids that stood twice and were merged. `repaired` counts what was read differently from
    how it was written, `ignored` what the schema has no place for, each by reason.
    """

    entities: list[Entity] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    formats: tuple[str, ...] = ()

    def counts(self) -> dict[str, Any]:
        """The figures that `kb convert` prints; `names` counts names and aliases."""
        types = Counter(entity.type for entity in self.entities if entity.type is not None)
        return {
            "format": ", ".join(self.formats),
            "entities": len(self.entities),
            "names": sum(1 + len(entity.aliases) for entity in self.entities),
            "types": dict(types.most_common()),
            "repaired": self.repaired.total(),
            "rejected": len(self.rejects),
            "ignored": self.ignored.total(),
            "reasons": {"repaired": dict(self.repaired), "ignored": dict(self.ignored)},
        }

    def reject_rows(self) -> list[dict[str, Any]]:
        """The rejects as JSON objects."""
        return [asdict(reject) for reject in self.rejects]


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how to know it, and how to read a file of it into a builder."""

    name: str
    matches: Callable[[Sample], bool]
    read: Callable[[Path, Builder, Columns], None]
