"""The Metathesaurus of UMLS: names in MRCONSO.RRF and, behind it, semantic types in MRSTY.RRF.

CUI|LAT|TS|LUI|STT|SUI|ISPREF|AUI|SAUI|SCUI|SDUI|SAB|TTY|CODE|STR|SRL|SUPPRESS|CVF|
CUI|TUI|STN|STY|ATUI|CVF|
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from rayner.counted import counted
from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import Columns
from rayner.data.knowledge_bases.lines import read_lines
from rayner.data.readers.base import Sample

_CONCEPT, _TYPE = re.compile("C[0-9]{7}"), re.compile("T[0-9]{3}")
_NAME_CELLS, _TYPE_CELLS = 19, 7
"""Each row ends with a bar."""
_LANGUAGE, _STATUS, _FORM, _PREFERRED, _STRING, _SUPPRESS = 1, 2, 4, 6, 14, 16


def matches(sample: Sample) -> bool:
    """Whether the first line is a row of one of the two."""
    cells = next((line for line in sample.lines if line.strip()), "").split("|")
    is_type = len(cells) == _TYPE_CELLS and _TYPE.fullmatch(cells[1])
    return bool(_CONCEPT.fullmatch(cells[0]) and (len(cells) == _NAME_CELLS or is_type))


def read(path: Path, builder: Builder, _: Columns) -> None:
    """An entity for each concept: its preferred name, and its other names as aliases.

    Names are those in English, or where there are none in the language of most; what the editors suppress is
    left out. Of several semantic types the first is taken. What is left out is counted.
    """
    lines = read_lines(path, builder)
    # Split twice: the cells of all rows would be ten times as large as the file.
    languages = Counter(line.split("|", 2)[_LANGUAGE] for _, line in lines if line.count("|") > _TYPE_CELLS)
    language = "ENG" if languages["ENG"] else max(languages, key=languages.__getitem__, default="")
    for number, line in lines:
        where, cells = f"{path}:{number}", line.split("|")
        if len(cells) == _TYPE_CELLS and _TYPE.fullmatch(cells[1]):
            builder.add_type(cells[0], cells[3])
        elif len(cells) != _NAME_CELLS:
            what = f"{counted(len(cells), 'cell')} between bars"
            builder.reject(where, what, "restore the row of MRCONSO or MRSTY")
        elif cells[_SUPPRESS] != "N":
            builder.ignored["suppressed name"] += 1
        elif cells[_LANGUAGE] != language:
            builder.ignored[f"name in {cells[_LANGUAGE]:.3}"] += 1
        elif (cells[_STATUS], cells[_FORM], cells[_PREFERRED]) == ("P", "PF", "Y"):
            builder.add(cells[0], cells[_STRING], where, repeats="names")
        else:
            builder.add(cells[0], None, where, aliases=[cells[_STRING]])
