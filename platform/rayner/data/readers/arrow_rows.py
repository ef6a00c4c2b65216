"""Rows of Arrow's tables and batches, whose strings nobody has looked at: Arrow takes any bytes for UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def rows_of(rows: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any] | UnicodeDecodeError]:
    """The rows; in place of one with a string that is not UTF-8, the error."""
    try:
        found = rows.to_pylist()
    except UnicodeDecodeError:
        found = (row_of(rows, number) for number in range(rows.num_rows))
    yield from found


def row_of(rows: pa.Table | pa.RecordBatch, number: int) -> dict[str, Any] | UnicodeDecodeError:
    """The row of a number, or the error, as in `rows_of`."""
    try:
        return rows.slice(number, 1).to_pylist()[0]
    except UnicodeDecodeError as error:
        return error
