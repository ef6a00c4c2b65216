"""What every writer returns, and how a file is written whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

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


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` once the writing has succeeded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def text_file(path: Path) -> Iterator[TextIO]:
    """A UTF-8 file to write, packed where its name ends in .gz; line ends are written as they are given."""
    with whole_file(path) as partial:
        opened: Callable[..., TextIO] = gzip.open if path.suffix == ".gz" else open  # type: ignore[assignment]
        with opened(partial, "wt", encoding="utf-8", newline="") as file:
            yield file


def one_line(text: str) -> str:
    """The text with a space for each tab and line end, so that offsets stay."""
    return text.translate(_SPACES)


_SPACES = str.maketrans("\t\n\r", "   ")
