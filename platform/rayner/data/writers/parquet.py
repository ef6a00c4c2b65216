"""Parquet with the columns of `DOCUMENT_SCHEMA`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from os import PathLike
from pathlib import Path

import pyarrow.parquet as pq

from rayner.data.schema import DOCUMENT_SCHEMA, Document, documents_to_table
from rayner.data.writers.base import Written, whole_file

GROUP_ROWS = 1024


def write_parquet(documents: Iterable[Document], path: str | PathLike[str]) -> Written:
    """Write one file. Scores are float32."""
    written = Written(paths=[Path(path)])
    rest = iter(documents)
    with (
        whole_file(Path(path)) as partial,
        pq.ParquetWriter(partial, DOCUMENT_SCHEMA, compression="zstd") as writer,
    ):
        while group := list(islice(rest, GROUP_ROWS)):
            writer.write_table(documents_to_table(group))
            for document in group:
                written.add(document.mentions)
    return written
