"""`ID<TAB>NAME` lines without a header, one a name; further columns are counted, not read."""

from __future__ import annotations

from pathlib import Path

from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import Columns
from rayner.data.knowledge_bases.lines import read_lines
from rayner.data.readers.base import Sample


def matches(sample: Sample) -> bool:
    """Whether every line has a tab after something."""
    lines = [line for line in sample.lines if line.strip()]
    return bool(lines) and all(line.partition("\t")[0].strip() and "\t" in line for line in lines)


def read(path: Path, builder: Builder, _: Columns) -> None:
    """The first line of an id names the entity, the others are its aliases."""
    for number, line in read_lines(path, builder):
        where = f"{path}:{number}"
        id_, tab, rest = line.partition("\t")
        if not tab:
            builder.reject(where, "no tab", "write ID<TAB>NAME")
            continue
        name, *further = rest.split("\t")
        if any(cell.strip() for cell in further):
            builder.ignored["further column"] += 1
        builder.add(id_, name, where, repeats="names")
