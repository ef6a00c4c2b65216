"""Reading dictionaries: `TYPE<TAB>name` or `TYPE<TAB>name<TAB>id` lines, names alone, CSV and TSV with a
header, JSONL entities."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rayner.data.csv_rows import Row, csv_rows, unclosed, uneven
from rayner.data.knowledge_bases.fields import KNOWN, known_column, parted, written_id
from rayner.data.readers.base import is_encodable
from rayner.data.readers.files import decode, read_bytes, split_lines, suffix
from rayner.errors import CorpusError
from rayner.supervision.dictionaries import Name

_OTHERS = ("type", "entity_id", "aliases")
"""The fields beside the name, whose columns may have the names that those of a knowledge base have."""


def read_dictionary(path: Path, default_type: str | None = None) -> list[Name]:
    """The names of a dictionary file.

    A header with a column `name` (and perhaps `type`, `entity_id`, `aliases`, these parted by `|`) makes
    columns; so does the suffix .csv. JSONL has these fields, `aliases` also as a list. All but `name` may
    have the other names that a knowledge base has for them, such as `category`, `id` and `synonyms`.

    Args:
        default_type: the type of names for which the file has none.

    Raises:
        CorpusError: a line that cannot be read, or a file without names.
    """
    kind = suffix(path)
    if kind in (".parquet", ".pq"):
        out = path.with_suffix(".jsonl").name
        convert = shlex.join(["rayner", "kb", "convert", str(path), "--out", out])
        hint = f"write it as JSON lines first: {convert}"
        raise CorpusError(str(path), "is Parquet, which is no form of a dictionary", hint)
    lines = split_lines(decode(read_bytes(path), path).removeprefix("\ufeff"))
    first = next((line for line in lines if line.strip()), "")
    header = [cell.strip().strip('"').lower() for cell in first.split("," if kind == ".csv" else "\t")]
    if kind in (".jsonl", ".json", ".ndjson"):
        names = list(_jsonl(lines, path, default_type))
    elif _is_header(header) or kind == ".csv":
        names = list(_columns(lines, path, default_type, "," if kind == ".csv" else "\t"))
    else:
        names = list(_lines(lines, path, default_type))
    if not names:
        raise CorpusError(str(path), "holds no name", "write a line TYPE<TAB>name for each")
    return names


def _is_header(cells: Sequence[str]) -> bool:
    """Whether a line names columns: NAME is also a type, of names of people."""
    others = {column for field in _OTHERS for column in KNOWN[field]}
    return "name" in cells and (len(cells) == 1 or not others.isdisjoint(cells))


def _lines(lines: Sequence[str], path: Path, default_type: str | None) -> Iterator[Name]:
    how = "write TYPE<TAB>name"
    for number, _, row in csv_rows(lines, "\t", partial(unclosed, path)):
        cells = [cell.strip() for cell in row] or [""]
        # A tab behind a name alone is no type without a name.
        while len(cells) > (1 if default_type else 2) and not cells[-1]:
            cells.pop()
        if len(cells) > 3:
            what = f"{len(cells)} cells"
            raise CorpusError(
                f"{path}:{number}", what, f"{how}, or TYPE<TAB>name<TAB>id, or name the columns above them"
            )
        type_, name, entity_id = ("", *cells, "") if len(cells) == 1 else (*cells, "")[:3]
        if name:
            yield Name(name, _type(type_, default_type, path, number, how), entity_id or None)
        elif type_ or entity_id:
            raise CorpusError(f"{path}:{number}", "no name in the second cell", _hint(how, default_type))


def _columns(lines: Sequence[str], path: Path, default_type: str | None, delimiter: str) -> Iterator[Name]:
    rows = csv_rows(lines, delimiter, partial(unclosed, path))
    top = next((row for row in rows if any(map(str.strip, row.cells))), Row(1, 1, []))
    header = [cell.strip().lower() for cell in top.cells]
    if "name" not in header:
        hint = "name the columns in the first line"
        if any(header):
            hint += f"; they are {', '.join(cell[:40] for cell in header[:8])}"
        if any(";" in cell for cell in header):
            hint = "save the table with commas, for `;` parts the columns here"
        raise CorpusError(f"{path}:{top.first}", "no column `name`", hint)
    fields = ("name", *(known_column(field, header) or "" for field in _OTHERS))
    if twice := next((name for name in fields if name and header.count(name) > 1), None):
        what = f"{header.count(twice)} columns {twice!r}"
        raise CorpusError(f"{path}:{top.first}", what, "give each a name of its own")
    name, type_, ids, aliases = fields
    for first, last, cells in rows:
        if any(cells[len(header) :]):
            raise CorpusError(f"{path}:{first}", *uneven(len(cells), len(header), delimiter))
        row = {column: cell for column, cell in zip(header, cells, strict=False) if column}
        names = [row.get(name, ""), *parted(row.get(aliases))]
        yield from _names(names, row.get(type_, ""), row.get(ids), default_type, path, last)


def _jsonl(lines: Sequence[str], path: Path, default_type: str | None) -> Iterator[Name]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            types, ids, aliases = (known_column(field, row) or "" for field in _OTHERS)
            names = [row["name"], *parted(row.get(aliases))]
            type_, entity_id = row.get(types) or "", written_id(row.get(ids))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            raise CorpusError(
                f"{path}:{number}", "no JSON object with a `name`", 'write {"name": ...}'
            ) from None
        if not all(isinstance(text, str) for text in (*names, type_, entity_id or "")):
            raise CorpusError(f"{path}:{number}", "a name, type or id that is no string", "put it in quotes")
        if half := next((text for text in (*names, type_, entity_id or "") if not is_encodable(text)), None):
            what = f"half a surrogate pair in {half[:20]!a}, which is no character"
            raise CorpusError(f"{path}:{number}", what, "write the character as UTF-8")
        yield from _names(names, type_, entity_id, default_type, path, number)


def _names(
    names: Sequence[str], type_: str, entity_id: str | None, default_type: str | None, path: Path, number: int
) -> Iterator[Name]:
    for name in names:
        if name.strip():
            found = _type(type_, default_type, path, number, "give it a `type`")
            yield Name(name.strip(), found, (entity_id or "").strip() or None)


def _type(type_: str, default_type: str | None, path: Path, number: int, how: str) -> str:
    found = type_.strip() or default_type
    if not found:
        raise CorpusError(f"{path}:{number}", "a name without a type", _hint(how, default_type))
    return found


def _hint(how: str, default_type: str | None) -> str:
    return how if default_type else f"{how}; rayner corpus label also takes --default-type TYPE"
