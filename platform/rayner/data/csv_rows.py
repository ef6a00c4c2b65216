"""The rows of CSV, and of tables in which a tab parts the cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rayner.counted import counted
from rayner.errors import CorpusError, InputError

_LONGEST = 2**31 - 1
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


class Row(NamedTuple):
    """Cells, and the numbers of the first and the last line that they take, from 1."""

    first: int
    last: int
    cells: list[str]


def csv_rows(lines: Sequence[str], delimiter: str, fault: Callable[[int, str], InputError]) -> Iterator[Row]:
    """The rows in order, the header as well, and those of no cells.

    Between tabs, a cell in quotes is unquoted where those within it are doubled, as spreadsheets write them.

    Args:
        fault: makes an error of the line on which a row begins that cannot be read, and of what is wrong.

    Raises:
        InputError: that error, for a quote that nobody closes.
    """
    # Elsewhere in a tab-separated file a quote is a character of a name (5" gun). In CSV, strict
    # keeps a quote that nobody closed from swallowing the rest of the file as one cell.
    if delimiter != ",":
        for number, line in enumerate(lines, 1):
            yield Row(number, number, [_unquoted(cell) for cell in line.split(delimiter)] if line else [])
        return
    # By default a cell of more than 128 KiB is an error, whoever reads.
    csv.field_size_limit(_LONGEST)
    rows = csv.reader((f"{line}\n" for line in lines), strict=True)
    first = 1
    try:
        for cells in rows:
            yield Row(first, rows.line_num, cells)
            first = rows.line_num + 1
    except csv.Error as error:
        # Where such a quote is noticed may be far behind it, at the end of the file.
        raise fault(first, f"{error}, at line {rows.line_num}") from None


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if _QUOTED.fullmatch(cell) else cell


def uneven(cells: int, columns: int, delimiter: str) -> tuple[str, str]:
    """What is wrong with a row of another number of cells than its header has, and what to do about it."""
    what = f"{counted(cells, 'cell')} under {counted(columns, 'column')}"
    if delimiter == ",":
        return what, "fill the row up" if cells < columns else "quote a cell that holds a comma"
    # No quotes would help here: the row is cut at tabs before.
    inner = (
        "fill the row up, or write a space for a line end" if cells < columns else "write a space for a tab"
    )
    return what, f"{inner} within a cell"


def unclosed(path: Path, line: int, what: str) -> CorpusError:
    """The `fault` of a file of mentions or names."""
    return CorpusError(f"{path}:{line}", what, "close the quotes of the row that begins here")
