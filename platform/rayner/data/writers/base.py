"""What every writer returns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rayner.data.schema import Document

COLUMNS_OF_A_MENTION = (
    "entity_id",
    "chain",
    "head",
    "score",
    "types",
    "candidates",
    "margin",
    "probability",
)
COLUMNS_OF_A_DOCUMENT = ("words", "sentences", "language", "group", "annotated_types", "contexts")


@dataclass(slots=True)
class Written:
    """What was written, and what the format had no place for, counted by what it is."""

    documents: int = 0
    mentions: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    paths: list[Path] = field(default_factory=list)

    def drop(self, what: str, count: int = 1) -> None:
        """Count what does not come back when the file is read."""
        if count:
            self.dropped[what] += count

    def drop_fields(self, document: Document, kept: tuple[str, ...]) -> None:
        """Count the fields of a document and of its mentions that are set and not among `kept`."""
        for name in COLUMNS_OF_A_DOCUMENT:
            # No contexts are none; no types that were annotated are something to know.
            value = getattr(document, name)
            if name not in kept and value is not None and (name != "contexts" or value):
                self.drop(name)
        for name in COLUMNS_OF_A_MENTION:
            if name not in kept:
                self.drop(name, sum(getattr(m, name) not in (None, ()) for m in document.mentions))


def one_line(text: str) -> str:
    """The text with a space for each tab and line end, so that offsets stay."""
    return text.translate(_SPACES)


_SPACES = str.maketrans("\t\n\r", "   ")
