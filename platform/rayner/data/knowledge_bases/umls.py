"""The Metathesaurus of UMLS: names in MRCONSO.RRF and, behind it, semantic types in MRSTY.RRF and concepts
that were merged into others in MRCUI.RRF.

CUI|LAT|TS|LUI|STT|SUI|ISPREF|AUI|SAUI|SCUI|SDUI|SAB|TTY|CODE|STR|SRL|SUPPRESS|CVF|
CUI|TUI|STN|STY|ATUI|CVF|
CUI1|VER|REL|RELA|MAPREASON|CUI2|MAPIN|
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rayner.counted import counted
from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import Columns
from rayner.data.knowledge_bases.lines import read_lines
from rayner.data.readers.base import Sample
from rayner.errors import KnowledgeBaseError

_CONCEPT, _TYPE = re.compile("C[0-9]{7}"), re.compile("T[0-9]{3}")
_NAME_CELLS, _TYPE_CELLS, _MERGED_CELLS = 19, 7, 8
"""Each row ends with a bar."""
_LANGUAGE, _STATUS, _FORM, _PREFERRED, _STRING, _SUPPRESS = 1, 2, 4, 6, 14, 16


def matches(sample: Sample) -> bool:
    """Whether the first line is a row of one of its tables."""
    first = next((line for line in sample.lines if line.strip()), "")
    cells = first.split("|")
    return bool(_CONCEPT.fullmatch(cells[0]) and not cells[-1] and len(cells) >= _TYPE_CELLS)


def read(path: Path, builder: Builder, _: Columns) -> None:
    """An entity for each concept: its preferred name, and its other names as aliases.

    Names are those in English, or where there are none in the language of most; what the editors suppress is
    left out. Of several semantic types the first is taken. The id of a concept that was merged into another
    is a further id of that. What is left out is counted.

    Raises:
        KnowledgeBaseError: another table.
    """
    lines = read_lines(path, builder)
    # Split twice: the cells of all rows would be ten times as large as the file.
    languages = Counter(line.split("|", 2)[_LANGUAGE] for _, line in lines if line.count("|") > _TYPE_CELLS)
    language = "ENG" if languages["ENG"] else max(languages, key=languages.__getitem__, default="")
    rows = (line.split("|") for _, line in lines)
    if not any(len(cells) == _NAME_CELLS or _is_type(cells) or _is_merged(cells) for cells in rows):
        what = "no row of a table of UMLS that is read"
        hint = "name MRCONSO.RRF, and behind it MRSTY.RRF and MRCUI.RRF; or give --format"
        raise KnowledgeBaseError(str(path), what, hint)
    for number, line in lines:
        where, cells = f"{path}:{number}", line.split("|")
        if _is_type(cells):
            builder.add_type(cells[0], cells[3])
        elif _is_merged(cells):
            if cells[2] != "SY":
                builder.ignored["old concept that is none of another's names now"] += 1
            elif not builder.add_other_id(cells[5], cells[0]):
                builder.ignored["old concept without a successor in the rows before"] += 1
        elif len(cells) != _NAME_CELLS:
            what = f"{counted(len(cells), 'cell')} between bars"
            builder.reject(where, what, "restore the row of MRCONSO, MRSTY or MRCUI")
        elif cells[_SUPPRESS] != "N":
            builder.ignored["suppressed name"] += 1
        elif cells[_LANGUAGE] != language:
            builder.ignored[f"name in {cells[_LANGUAGE]:.3}"] += 1
        elif (cells[_STATUS], cells[_FORM], cells[_PREFERRED]) == ("P", "PF", "Y"):
            builder.add(cells[0], cells[_STRING], where, repeats="names")
        else:
            builder.add(cells[0], None, where, aliases=[cells[_STRING]])


def _is_type(cells: Sequence[str]) -> bool:
    return len(cells) == _TYPE_CELLS and bool(_TYPE.fullmatch(cells[1]))


def _is_merged(cells: Sequence[str]) -> bool:
    return len(cells) == _MERGED_CELLS and bool(_CONCEPT.fullmatch(cells[0]))
