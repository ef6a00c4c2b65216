"""Dictionaries of BioSyn and of DNorm's MEDIC: `ID[|OTHER_ID...]||NAME[|SYNONYM...]`.

Sung et al. 2020 use lines of one name, and MEDIC as shipped with it has all of an entity's names in one.
"""

from __future__ import annotations

from pathlib import Path

from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import Columns
from rayner.data.knowledge_bases.lines import read_lines
from rayner.data.readers.base import Sample


def matches(sample: Sample) -> bool:
    """Whether every line has a double bar after something."""
    lines = [line for line in sample.lines if line.strip()]
    return bool(lines) and all(line.partition("||")[0].strip() and "||" in line for line in lines)


def read(path: Path, builder: Builder, _: Columns) -> None:
    """One entity a line, or one name a line where more lines repeat an id than have a synonym."""
    lines = read_lines(path, builder)
    parted = [line.partition("||") for _, line in lines]
    again = len(parted) - len({ids.split("|")[0] for ids, _, _ in parted})
    with_synonyms = sum("|" in names for _, _, names in parted)
    repeats = "names" if again > with_synonyms or not with_synonyms else "never"
    for number, line in lines:
        where = f"{path}:{number}"
        ids, bars, names = line.partition("||")
        if not bars:
            builder.reject(where, "no `||`", "write ID||NAME|SYNONYM|...")
            continue
        id_, *others = ids.split("|")
        name, *aliases = names.split("|")
        builder.add(id_, name, where, aliases=aliases, other_ids=others, repeats=repeats)
