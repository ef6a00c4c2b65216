"""Knowledge bases in any format, read into entities and written as Parquet or JSON lines."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from rayner.data.json_lines import OF_AN_ARRAY, is_array
from rayner.data.knowledge_bases import biosyn, csv_tables, ctd, esappmod, id_names, jsonl, obo, parquet, umls
from rayner.data.knowledge_bases.base import Format, KnowledgeBase
from rayner.data.knowledge_bases.builder import Builder, Reject, Repeat
from rayner.data.knowledge_bases.fields import FLAGS, Columns
from rayner.data.knowledge_bases.writers import check_suffix, write_knowledge_base
from rayner.data.readers import files
from rayner.errors import KnowledgeBaseError
from rayner.files.fetching import local

__all__ = [
    "FORMATS",
    "Columns",
    "KnowledgeBase",
    "Reject",
    "Repeat",
    "check_suffix",
    "detect_format",
    "read_knowledge_base",
    "write_knowledge_base",
]

FORMATS: dict[str, Format] = {
    name: Format(name, module.matches, module.read)
    for name, module in {
        "parquet": parquet,
        "obo": obo,
        "esappmod": esappmod,
        "jsonl": jsonl,
        "ctd": ctd,
        "umls": umls,
        "biosyn": biosyn,
        "columns": csv_tables,
        "pairs": id_names,
    }.items()
}
"""The formats by name, in the order in which `auto` tries them: the more telling first."""
WITH_COLUMNS = frozenset({"parquet", "jsonl", "columns"})
"""Those in which columns or fields have names, and may have others than usual."""


def read_knowledge_base(
    path: str | PathLike[str] | Iterable[str | PathLike[str]],
    format: str = "auto",
    columns: Columns | None = None,
    max_aliases: int | None = None,
) -> KnowledgeBase:
    """Read a file, or several that together are one knowledge base.

    Aliases that repeat are dropped and counted. An id that occurs twice is merged where the name of one is
    among the names of the other, ignoring case; otherwise the later is rejected. In a table without a column
    of aliases, and in lists of one name a line, each further row of an id is an alias.

    Args:
        format: one of `FORMATS`, or auto, which tells it for each file.
        columns: which columns of rows (CSV, TSV, Parquet, JSON lines) hold what.
        max_aliases: the most aliases that an entity may have.

    Raises:
        KnowledgeBaseError: no entity can be read, no known format, a missing column, too many aliases, or
            columns that are named of formats without any.
        CorpusError: a file that cannot be opened, or is not UTF-8.
    """
    paths = [local(p) for p in ([path] if isinstance(path, str | PathLike) else path)]
    columns = columns or Columns()
    if format != "auto" and format not in FORMATS:
        raise KnowledgeBaseError("--format", f"no format {format!r}", f"one of auto, {', '.join(FORMATS)}")
    builder, formats = Builder(), dict[str, None]()
    for file in paths:
        name = detect_format(file) if format == "auto" else format
        formats[name] = None
        FORMATS[name].read(file, builder, columns)
    named = [flag for field, flag in FLAGS.items() if getattr(columns, field) is not None]
    if named and not formats.keys() & WITH_COLUMNS:
        what = f"{named[0]} names a column, and {', '.join(formats)} has none with a name"
        raise KnowledgeBaseError(", ".join(map(str, paths)), what, "give --format columns, or leave it out")
    entities, places = builder.finish(max_aliases)
    if not entities:
        if builder.rejects:
            first = builder.rejects[0]
            raise KnowledgeBaseError(first.where, first.what, first.hint)
        raise KnowledgeBaseError(", ".join(map(str, paths)), "no entity in it", "restore its content")
    parents = {id_: tuple(entry.parents) for id_, entry in builder.entries.items() if entry.parents}
    return KnowledgeBase(
        entities,
        places,
        parents,
        builder.rejects,
        builder.repeats,
        builder.repaired,
        builder.ignored,
        tuple(formats),
    )


def detect_format(path: Path) -> str:
    """The name of a file's format.

    Raises:
        KnowledgeBaseError: no such file, an empty one, or no known format.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise KnowledgeBaseError(str(path), what, "name the file of the knowledge base")
    if not path.stat().st_size:
        raise KnowledgeBaseError(str(path), "an empty file", "remove it, or restore its content")
    sample = files.sample(path)
    for name, format in FORMATS.items():
        if format.matches(sample):
            return name
    first = next((line for line in sample.lines if line.strip()), "")
    hint = OF_AN_ARRAY if is_array(sample.lines) else f"give --format: {', '.join(FORMATS)}"
    raise KnowledgeBaseError(str(path), f"no known format; it starts {first[:40]!a}", hint)
