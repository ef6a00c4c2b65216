"""Mentions to be linked, one a row of a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

from rayner.counted import counted
from rayner.data.csv_rows import Row, csv_rows, unclosed
from rayner.data.readers import files
from rayner.data.readers.base import is_encodable
from rayner.errors import CorpusError

COLUMN = "mention"


class MentionRow(NamedTuple):
    """A row: the number of its (last) line, from 1, and the mention or what is wrong with the row.

    In a JSON array it is the number of the element.
    """

    line: int
    text: str | None
    fault: str | None = None


def read_mention_rows(path: Path) -> Iterator[MentionRow]:
    """The mentions of a file, a row each, in order, also of rows that cannot be read.

    JSON lines (`.jsonl`, `.ndjson`, `.json`) have the key `mention`, CSV and TSV a column of this name; blank
    lines of theirs are no rows. In place of lines there may be one array, of such objects or of strings. In
    any other file each line is a mention, a blank one an empty mention.

    Raises:
        CorpusError: a file that cannot be opened, is Parquet, is not UTF-8, is a table without that column,
            or one JSON value over several lines that is no array of mentions.
    """
    if files.suffix(path) == ".parquet" and path.exists():
        raise CorpusError(str(path), "is no text", "write CSV, TSV, JSON lines, or one mention a line")
    text = files.without_mark(files.decode(files.read_bytes(path), path), Counter())
    lines = files.split_lines(text)
    match files.suffix(path):
        case ".jsonl" | ".ndjson" | ".json":
            array = _array(text, lines, path)
            return _json_rows(lines) if array is None else starmap(_json_row, enumerate(array, 1))
        case ".csv":
            return _table_rows(lines, ",", path)
        case ".tsv":
            return _table_rows(lines, "\t", path)
    return (MentionRow(number, line) for number, line in enumerate(lines, 1))


def _json_rows(lines: Sequence[str]) -> Iterator[MentionRow]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield MentionRow(number, None, f"not JSON ({error})")
            continue
        # A string alone is a mention in an array, where all are alike; among lines it is a mistake.
        yield _json_row(number, None if isinstance(row, str) else row)


def _json_row(number: int, row: Any) -> MentionRow:
    mention = row.get(COLUMN) if isinstance(row, dict) else row
    if not isinstance(mention, str):
        return MentionRow(number, None, f"no text under `{COLUMN}`")
    if not is_encodable(mention):
        return MentionRow(number, None, "half a surrogate pair, which is no character")
    return MentionRow(number, mention)


def _array(text: str, lines: Sequence[str], path: Path) -> list[Any] | None:
    """The elements, where the file is one array; None where it is JSON lines."""
    hint = f'write one {{"{COLUMN}": "..."}} a line, or one array of them'
    first = next((line for line in lines if line.strip()), "")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        # A first line that is whole makes JSON lines, whatever the others are.
        if first.strip() in ("[", "{") or (first.lstrip().startswith("[") and not _is_json(first)):
            raise CorpusError(f"{path}:{error.lineno}", f"not JSON ({error.msg})", hint) from None
        return None
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and not _is_json(first):
        if COLUMN not in value:
            raise CorpusError(str(path), "one JSON object, no array of mentions", hint)
        return [value]
    return None


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _table_rows(lines: Sequence[str], delimiter: str, path: Path) -> Iterator[MentionRow]:
    rows = csv_rows(lines, delimiter, partial(unclosed, path))
    top = next((row for row in rows if any(cell.strip() for cell in row.cells)), Row(1, 1, []))
    header = [cell.strip() for cell in top.cells]
    if COLUMN not in header:
        what = f"no column {COLUMN!r} among {', '.join(map(repr, header)) or 'none'}"
        raise CorpusError(
            f"{path}:{top.first}", what, "name the column so, or give a .txt file of one mention a line"
        )
    return _cells(rows, header.index(COLUMN))


def _cells(rows: Iterator[Row], column: int) -> Iterator[MentionRow]:
    for _, last, cells in rows:
        if not cells:
            continue
        if len(cells) <= column:
            yield MentionRow(last, None, f"{counted(len(cells), 'cell')}, none under `{COLUMN}`")
        else:
            yield MentionRow(last, cells[column])
