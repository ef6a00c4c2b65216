"""Parquet with the columns of `DOCUMENT_SCHEMA`, in one file or in shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path

import pyarrow.parquet as pq

from rayner.data.schema import DOCUMENT_SCHEMA, Document, documents_to_table
from rayner.data.writers.base import Written
from rayner.files.whole import whole_file

GROUP_ROWS, GROUP_CHARACTERS = 1024, 1 << 23
"""A row group ends after so many documents, or with the one that fills it up to so many characters."""


def write_parquet(
    documents: Iterable[Document], path: str | PathLike[str], documents_per_shard: int | None = None
) -> Written:
    """Write one file, or with `documents_per_shard` a folder of `part-00000.parquet`, ...,
    in place of those that are there. Scores are float32.
    """
    path = Path(path)
    written = Written()
    if documents_per_shard is None:
        _write(documents, path, written)
        return written
    rest = iter(documents)
    number = 0
    while shard := list(islice(rest, documents_per_shard)):
        _write(shard, path / f"part-{number:05d}.parquet", written)
        number += 1
    for stale in set(path.glob("part-*.parquet")) - set(written.paths):
        stale.unlink()
    return written


@contextmanager
def parquet_file(path: Path) -> Iterator[Callable[[Document], None]]:
    """Write one file document by document; it is there, whole, once all are written."""
    group: list[Document] = []
    characters = 0
    with (
        whole_file(path) as partial,
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


def _write(documents: Iterable[Document], path: Path, written: Written) -> None:
    with parquet_file(path) as write:
        for document in documents:
            write(document)
            written.documents += 1
            written.mentions += len(document.mentions)
    written.paths.append(path)
