"""What every writer returns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rayner.data.readers.offsets import with_spaces
from rayner.data.schema import Document, Mention

COLUMNS_OF_A_MENTION = (
    "entity_id",
    "chain",
    "head",
    "score",
    "types",
    "candidates",
    "margin",
    "probability",
    "uncertainty",
    "name",
)
COLUMNS_OF_A_DOCUMENT = ("words", "sentences", "language", "group", "annotated_types", "contexts")


@dataclass(slots=True)
class Loss:
    """Something of a document that its format has no place for: what, how often, and of which mentions."""

    document_id: str
    what: str
    count: int = 0
    mentions: list[Mention] = field(default_factory=list)

    def to_row(self) -> dict[str, Any]:
        """The loss as a JSON object."""
        mentions = [{"start": m.start, "end": m.end, "type": m.type} for m in self.mentions]
        return {
            "document_id": self.document_id,
            "what": self.what,
            "count": self.count,
            "mentions": mentions,
        }


@dataclass(slots=True)
class Losses:
    """What does not come back of one document when the file is read, by what it is."""

    document_id: str
    found: dict[str, Loss] = field(default_factory=dict)

    def drop(self, what: str, count: int = 1) -> None:
        """Count it."""
        if count:
            self.found.setdefault(what, Loss(self.document_id, what)).count += count

    def drop_mentions(self, what: str, mentions: Sequence[Mention]) -> None:
        """Count it once a mention."""
        self.drop(what, len(mentions))
        if mentions:
            self.found[what].mentions += mentions

    def drop_fields(self, document: Document, kept: tuple[str, ...]) -> None:
        """Count the fields of the document and of its mentions that are set and not among `kept`."""
        for name in COLUMNS_OF_A_DOCUMENT:
            # No contexts are none; no types that were annotated are something to know.
            value = getattr(document, name)
            if name not in kept and value is not None and (name != "contexts" or value):
                self.drop(name)
        for name in COLUMNS_OF_A_MENTION:
            if name not in kept:
                having = [m for m in document.mentions if getattr(m, name) not in (None, ())]
                self.drop_mentions(name, having)


@dataclass(slots=True)
class Written:
    """What was written, and what the format had no place for."""

    documents: int = 0
    types: Counter[str] = field(default_factory=Counter)
    losses: list[Loss] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    def add(self, mentions: Iterable[Mention], losses: Losses | None = None) -> None:
        """Count a document with these mentions, and what was lost of it."""
        self.documents += 1
        self.types.update(mention.type for mention in mentions)
        if losses is not None:
            self.losses += losses.found.values()

    @property
    def mentions(self) -> int:
        """How many were written."""
        return self.types.total()

    @property
    def dropped(self) -> Counter[str]:
        """How much was lost, by what it is."""
        counts: Counter[str] = Counter()
        for loss in self.losses:
            counts[loss.what] += loss.count
        return counts


def escaped(document_id: str, unsafe: re.Pattern[str]) -> str:
    """The id with `%` and a number for each character that its format has no place for: two ids stay two."""
    # Only what reads as such a number is escaped too: `100 %` stays.
    return re.sub(rf"%(?=[0-9A-F]{{2}})|{unsafe.pattern}", lambda match: f"%{ord(match[0]):02X}", document_id)


def plain_type(mention: Mention) -> str:
    """The type of a mention as a field of a line holds it."""
    return with_spaces(mention.type).strip()
