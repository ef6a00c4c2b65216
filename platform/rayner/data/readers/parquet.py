"""Parquet with the columns of `DOCUMENT_SCHEMA`; columns that are missing count as null."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.readers import files
from rayner.data.readers.base import Reading, Sample, Unit
from rayner.data.readers.rows import add_row
from rayner.data.schema import DOCUMENT_SCHEMA
from rayner.errors import CorpusError

BATCH_ROWS = 1024


def units(paths: Sequence[Path]) -> list[Unit]:
    """One unit a file."""
    return files.each_file("parquet", paths)


def matches(sample: Sample) -> bool:
    """Whether the name says Parquet."""
    return sample.path.suffix.lower() in (".parquet", ".pq")


def read(unit: Unit) -> Reading:
    """The documents of a Parquet file; places are row numbers from 0."""
    reading = Reading()
    (path,) = unit.paths
    try:
        with pq.ParquetFile(path) as file:
            columns = [name for name in DOCUMENT_SCHEMA.names if name in file.schema_arrow.names]
            for name in ("document_id", "text"):
                if name not in columns:
                    found = ", ".join(file.schema_arrow.names)
                    raise CorpusError(path, f"no column `{name}` among {found}", "name the column so")
            for name in set(file.schema_arrow.names) - set(columns):
                reading.ignored[f"field {name}"] += file.metadata.num_rows
            row_number = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                for row in batch.to_pylist():
                    add_row(row, f"{path}:row {row_number}", f"{unit.name}:{row_number}", reading)
                    row_number += 1
    except (pa.ArrowException, OSError) as error:
        if files.is_fault(error):
            raise
        raise CorpusError(path, f"not a Parquet file that can be read ({error})", "write it again") from None
    return reading
