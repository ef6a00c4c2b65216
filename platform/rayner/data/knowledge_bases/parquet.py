"""Parquet with the columns of `ENTITY_SCHEMA`, or with others that are named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import Columns, add_row, find_columns, unused_columns
from rayner.data.readers.base import Sample
from rayner.errors import KnowledgeBaseError

BATCH_ROWS = 4096


def matches(sample: Sample) -> bool:
    """Whether the name says Parquet."""
    return sample.path.suffix.lower() in (".parquet", ".pq")


def read(path: Path, builder: Builder, columns: Columns) -> None:
    """One entity a row, or without a column of aliases one name a row; places are row numbers from 0."""
    try:
        with pq.ParquetFile(path) as file:
            present = file.schema_arrow.names
            found = find_columns(columns, present, str(path))
            unused = unused_columns(found, present)
            builder.ignored.update(f"column {column}" for column in unused)
            wanted = [column for column in present if column not in unused]
            number = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=wanted):
                for row in batch.to_pylist():
                    repeats = "rows" if found.aliases else "names"
                    add_row(row, found, f"{path}:row {number}", builder, repeats)
                    number += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise KnowledgeBaseError(
            str(path), f"not a Parquet file that can be read ({error})", "write it again"
        ) from None
