"""Parquet with the columns of `DOCUMENT_SCHEMA`; columns that are missing count as null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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


def parts(unit: Unit) -> list[Unit]:
    """A file as runs of whole row groups of about `files.PART_BYTES` before compression."""
    (path,) = unit.paths
    if files.size_of(path) < 2 * files.PART_BYTES:
        return [unit]
    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            sizes = [(group.total_byte_size, group.num_rows) for group in groups]
    except (pa.ArrowException, OSError):
        # Reading it says what is wrong.
        return [unit]
    found: list[Unit] = []
    begin = before = gathered = rows = 0
    for place, (size, count) in enumerate(sizes, 1):
        gathered, rows = gathered + size, rows + count
        if gathered >= files.PART_BYTES or place == len(sizes):
            found.append(replace(unit, span=(begin, place), first=before))
            begin, before = place, before + rows
            gathered = rows = 0
    return found if len(found) > 1 else [unit]


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
            groups = list(range(*(unit.span or (0, file.metadata.num_row_groups))))
            rows = sum(file.metadata.row_group(i).num_rows for i in groups)
            for name in set(file.schema_arrow.names) - set(columns):
                reading.ignored[f"field {name}"] += rows
            row_number = unit.first
            for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=groups, columns=columns):
                for row in batch.to_pylist():
                    add_row(row, f"{path}:row {row_number}", f"{unit.name}:{row_number}", reading)
                    row_number += 1
    except files.NOT_GIVEN as error:
        raise files.unreadable(path, error) from None
    except (pa.ArrowException, OSError) as error:
        if files.is_fault(error):
            raise
        raise CorpusError(path, f"not a Parquet file that can be read ({error})", "write it again") from None
    return reading
