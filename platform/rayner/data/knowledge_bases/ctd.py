"""Vocabularies of the Comparative Toxicogenomics Database: CTD_diseases.tsv and its like.

The columns are in a comment: `# DiseaseName<TAB>DiseaseID<TAB>AltDiseaseIDs<TAB>Definition<TAB>...`. Those of
genes begin with `GeneSymbol`, which is another name; chemicals have two columns of synonyms. The same files
as CSV have commas in place of the tabs.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rayner.counted import counted
from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import SEPARATOR, Columns
from rayner.data.knowledge_bases.lines import read_lines
from rayner.data.readers.base import Sample
from rayner.errors import KnowledgeBaseError


def matches(sample: Sample) -> bool:
    """Whether a comment names the columns."""
    return _header(sample.lines) is not None


def read(path: Path, builder: Builder, _: Columns) -> None:
    """One entity a line."""
    lines = read_lines(path, builder)
    found = _header(line for _, line in lines)
    if found is None:
        hint = "give --format columns if the first line names the columns"
        what = "no comment `# ...Name<TAB>...ID<TAB>...` names the columns"
        raise KnowledgeBaseError(str(path), what, hint)
    header, cells_of = found
    name, id_ = _name_and_id(header)
    before = header[: header.index(name)]
    names = [*before, *(column for column in header if column.endswith("Synonyms"))]
    others = [column for column in header if column.startswith("Alt") and column.endswith("IDs")]
    used = {name, id_, "Definition", "ParentIDs", *names, *others}
    builder.ignored.update(f"column {column}" for column in header if column not in used)
    for number, line in lines:
        if line.startswith("#"):
            continue
        where, cells = f"{path}:{number}", cells_of(line)
        if not header.index(id_) < len(cells) <= len(header):
            what = f"{counted(len(cells), 'cell')} under {counted(len(header), 'column')}"
            builder.reject(where, what, "part the cells as those of the header")
            continue
        row = dict(zip(header, cells, strict=False))
        aliases = [alias for column in names for alias in _parts(row.get(column, ""))]
        builder.add(
            row[id_],
            # Some genes have a symbol and no name.
            row[name] or next(iter(aliases), ""),
            where,
            aliases=aliases,
            description=row.get("Definition"),
            parents=_parts(row.get("ParentIDs", "")),
            # Of the Disease Ontology CTD writes `DO:DOID:1`, and everybody else `DOID:1`.
            other_ids=[
                re.sub("^DO:(?=DOID:)", "", id_) for column in others for id_ in _parts(row.get(column, ""))
            ],
        )


def _header(lines: Iterable[str]) -> tuple[list[str], Callable[[str], list[str]]] | None:
    """The columns, and what parts a line into its cells."""
    for line in lines:
        if not line.startswith("#"):
            return None
        for cells_of in (_between_tabs, _between_commas):
            cells = [cell.strip() for cell in cells_of(line.lstrip("# "))]
            if all(_name_and_id(cells)):
                return cells, cells_of
    return None


def _between_tabs(line: str) -> list[str]:
    return line.split("\t")


def _between_commas(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _name_and_id(header: Sequence[str]) -> tuple[str, str]:
    """The first columns, of names and of ids, perhaps behind one of symbols; empty without them."""
    columns = header[1:] if header and header[0].endswith("Symbol") else header
    # Words alone: a comment may be a sentence.
    if len(columns) > 1 and re.fullmatch(r"\w+Name", columns[0]) and re.fullmatch(r"\w+ID", columns[1]):
        return columns[0], columns[1]
    return "", ""


def _parts(cell: str) -> list[str]:
    return cell.split(SEPARATOR) if cell else []
