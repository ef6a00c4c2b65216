"""Parquet with the columns of `DOCUMENT_SCHEMA`; columns that are missing count as null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.readers import files
from rayner.data.readers.arrow_rows import rows_of
from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.readers.huggingface import TAGS, WORDS
from rayner.data.readers.rows import add_row
from rayner.data.schema import DOCUMENT_SCHEMA
from rayner.errors import CorpusError

BATCH_ROWS = 1024


def parts(unit: FileUnit) -> list[FileUnit]:
    """A file as runs of whole row groups of about `files.PART_BYTES` before compression."""
    (path,) = unit.paths
    if files.size_of(path) < 2 * files.PART_BYTES:
        return [unit]
    try:
        with pq.ParquetFile(path) as file:
            _columns(file, path)
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            sizes = [(group.total_byte_size, group.num_rows) for group in groups]
    except (pa.ArrowException, OSError, CorpusError) as error:
        if files.is_fault(error):
            raise
        # Reading it says what is wrong.
        return [unit]
    found: list[FileUnit] = []
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


def read(unit: FileUnit) -> Reading:
    """The documents of a Parquet file; places are row numbers from 0.

    Of a damaged row group, the rows from the first one that cannot be had are one reject.
    """
    reading = Reading()
    (path,) = unit.paths
    begin = unit.first
    try:
        with pq.ParquetFile(path) as file:
            columns = _columns(file, path)
            for group in range(*(unit.span or (0, file.metadata.num_row_groups))):
                end = begin + file.metadata.row_group(group).num_rows
                for name in set(file.schema_arrow.names) - set(columns):
                    reading.ignored[f"field {name}"] += end - begin
                try:
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
                        for number, row in enumerate(rows_of(batch), begin):
                            add_row(row, f"{path}:row {number}", f"{unit.name}:{number}", reading)
                        begin += len(batch)
                except (pa.ArrowException, OSError) as error:
                    if files.is_fault(error):
                        raise
                    what = f"the rows before row {end} cannot be read ({error})"
                    reading.reject(f"{path}:row {begin}", what, "write the file again")
                begin = end
    except files.NOT_GIVEN as error:
        raise files.unreadable(path, error) from None
    except (pa.ArrowException, OSError) as error:
        if files.is_fault(error):
            raise
        raise CorpusError(path, f"not a Parquet file that can be read ({error})", "write it again") from None
    return reading


def _columns(file: pq.ParquetFile, path: str) -> list[str]:
    """Those that are read.

    Raises:
        CorpusError: one that a document needs is not there.
    """
    names = file.schema_arrow.names
    if fault := missing_column(names):
        raise CorpusError(path, *fault)
    return [name for name in DOCUMENT_SCHEMA.names if name in names]


def missing_column(names: Sequence[str]) -> tuple[str, str] | None:
    """The first column that a document needs and that is not among the names: what is wrong, and the hint."""
    missing = next((name for name in ("document_id", "text") if name not in names), None)
    if missing is None:
        return None
    hint = "name the column so"
    if "mentions" not in names and set(TAGS).intersection(names) and set(WORDS).intersection(names):
        hint = "words with tags are read by `rayner corpus convert --from huggingface`"
    if missing == "text" and "model_version" in names:
        hint = "`rayner annotate --jsonl` writes documents with their texts, to _jsonl: name that folder"
    return f"no column `{missing}` among {', '.join(names)}", hint
