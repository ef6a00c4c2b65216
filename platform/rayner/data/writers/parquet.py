"""Parquet with the columns of `DOCUMENT_SCHEMA`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

import pyarrow.parquet as pq

from rayner.data.schema import DOCUMENT_SCHEMA, Document, documents_to_table
from rayner.data.writers.base import Written
from rayner.files.whole import whole_file

GROUP_ROWS, GROUP_CHARACTERS = 1024, 1 << 23
"""A row group ends after so many documents, or with the one that fills it up to so many characters."""


def write_parquet(documents: Iterable[Document], path: str | PathLike[str]) -> Written:
    """Write one file. Scores are float32."""
    written = Written(paths=[Path(path)])
    with parquet_file(Path(path)) as write:
        for document in documents:
            write(document)
            written.add(document.mentions)
    return written


@contextmanager
def parquet_file(path: Path) -> Iterator[Callable[[Document], None]]:
    """Write one file document by document; it is there, whole, once all are written."""
    group: list[Document] = []
    characters = 0
    with (
        whole_file(Path(path)) as partial,
        pq.ParquetWriter(partial, DOCUMENT_SCHEMA, compression="zstd") as writer,
    ):

        def flush() -> None:
            nonlocal characters
            writer.write_table(documents_to_table(group))
            group.clear()
            characters = 0

        def write(document: Document) -> None:
            nonlocal characters
            group.append(document)
            characters += len(document.text)
            if len(group) == GROUP_ROWS or characters >= GROUP_CHARACTERS:
                flush()

        yield write
        if group:
            flush()
