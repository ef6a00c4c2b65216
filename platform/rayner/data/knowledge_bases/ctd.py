"""Vocabularies of the Comparative Toxicogenomics Database: CTD_diseases.tsv and its like.

The columns are in a comment: `# DiseaseName<TAB>DiseaseID<TAB>AltDiseaseIDs<TAB>Definition<TAB>...`. Those of
genes begin with `GeneSymbol`, which is another name; chemicals have two columns of synonyms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    header = _header(line for _, line in lines)
    if header is None:
        hint = "give --format columns if the first line names the columns"
        what = "no comment `# ...Name<TAB>...ID<TAB>...` names the columns"
        raise KnowledgeBaseError(str(path), what, hint)
    name, id_ = _name_and_id(header)
    before = header[: header.index(name)]
    names = [*before, *(column for column in header if column.endswith("Synonyms"))]
    others = [column for column in header if column.startswith("Alt") and column.endswith("IDs")]
    used = {name, id_, "Definition", "ParentIDs", *names, *others}
    builder.ignored.update(f"column {column}" for column in header if column not in used)
    for number, line in lines:
        if line.startswith("#"):
            continue
        where, cells = f"{path}:{number}", line.split("\t")
        if not header.index(id_) < len(cells) <= len(header):
            what = f"{counted(len(cells), 'cell')} under {counted(len(header), 'column')}"
            builder.reject(where, what, "part the cells with tabs")
            continue
        row = dict(zip(header, cells, strict=False))
        builder.add(
            row[id_],
            row[name],
            where,
            aliases=[alias for column in names for alias in _parts(row.get(column, ""))],
            description=row.get("Definition"),
            parents=_parts(row.get("ParentIDs", "")),
            other_ids=[id_ for column in others for id_ in _parts(row.get(column, ""))],
        )


def _header(lines: Iterable[str]) -> list[str] | None:
    for line in lines:
        if not line.startswith("#"):
            return None
        cells = [cell.strip() for cell in line.lstrip("# ").split("\t")]
        if all(_name_and_id(cells)):
            return cells
    return None


def _name_and_id(header: Sequence[str]) -> tuple[str, str]:
    """The first columns, of names and of ids, perhaps behind one of symbols; empty without them."""
    columns = header[1:] if header[0].endswith("Symbol") else header
    if len(columns) > 1 and columns[0].endswith("Name") and columns[1].endswith("ID"):
        return columns[0], columns[1]
    return "", ""


def _parts(cell: str) -> list[str]:
    return cell.split(SEPARATOR) if cell else []
