"""CSV and TSV with a header: `|` parts several values of a cell; without aliases, each row is a name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rayner.data.csv_rows import csv_rows, uneven
from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import KNOWN, Columns, add_row, find_columns, unused_columns
from rayner.data.knowledge_bases.lines import read_text
from rayner.data.readers.base import Sample
from rayner.data.readers.files import split_lines, suffix
from rayner.errors import KnowledgeBaseError


def matches(sample: Sample) -> bool:
    """Whether the name says CSV or TSV, or the first line names a column of ids or of names."""
    if suffix(sample.path) in (".csv", ".tsv"):
        return True
    first = _header(sample.lines).lower()
    cells = {cell.strip().strip('"') for cell in first.split(_delimiter(first))}
    return len(cells) > 1 and bool(cells & {*KNOWN["entity_id"], *KNOWN["name"]})


def read(path: Path, builder: Builder, columns: Columns) -> None:
    """One entity a row; rows of one id and name are one entity, and without aliases each row is a name."""
    lines = split_lines(read_text(path, builder))
    delimiter = _delimiter(_header(lines))

    def fault(line: int, what: str) -> KnowledgeBaseError:
        hint = "close the quote, and double those inside"
        return KnowledgeBaseError(f"{path}:{line}", f"not CSV ({what})", hint)

    rows = csv_rows(lines, delimiter, fault)
    top = next((row for row in rows if any(cell.strip() for cell in row.cells)), None)
    if top is None:
        raise KnowledgeBaseError(str(path), "an empty file", "remove it, or restore its content")
    header = [cell.strip() for cell in top.cells]
    try:
        found = find_columns(columns, header, f"{path}:{top.first}")
    except KnowledgeBaseError as error:
        if len(_header(lines).split(";")) > len(header):
            what = "`;` parts the columns, which is neither a comma nor a tab"
            raise KnowledgeBaseError(error.where, what, "save the table with commas or tabs") from None
        hint = f"{error.hint}; --format pairs reads ID<TAB>NAME lines without a header"
        raise KnowledgeBaseError(error.where, error.what, hint) from None
    builder.ignored.update(f"column {column}" for column in unused_columns(found, header))
    for first, _, cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{path}:{first}"
        if len(cells) != len(header):
            builder.reject(where, *uneven(len(cells), len(header), delimiter))
            continue
        row = dict(zip(header, cells, strict=True))
        add_row(row, found, where, builder, "rows" if found.aliases else "names")


def _header(lines: Sequence[str]) -> str:
    """The first line that holds something."""
    return next(filter(str.strip, lines), "")


def _delimiter(header: str) -> str:
    return "\t" if "\t" in header else ","
