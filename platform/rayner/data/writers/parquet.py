"""Parquet with the columns of `DOCUMENT_SCHEMA`, in one file or in shards."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from os import PathLike
from pathlib import Path

import pyarrow.parquet as pq

from rayner.data.schema import DOCUMENT_SCHEMA, Document, documents_to_table
from rayner.data.writers.base import Written
from rayner.files.whole import whole_file

GROUP_ROWS = 1024


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


def _write(documents: Iterable[Document], path: Path, written: Written) -> None:
    rest = iter(documents)
    with (
        whole_file(path) as partial,
        pq.ParquetWriter(partial, DOCUMENT_SCHEMA, compression="zstd") as writer,
    ):
        while group := list(islice(rest, GROUP_ROWS)):
            writer.write_table(documents_to_table(group))
            written.documents += len(group)
            written.mentions += sum(len(document.mentions) for document in group)
    written.paths.append(path)
