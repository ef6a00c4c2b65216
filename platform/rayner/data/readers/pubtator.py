"""PubTator: `ID|t|title`, `ID|a|abstract`, then `ID start end text type entity` between tabs.

Composite entity ids (`D1|D2`, `D1+D2`) stay as they are; `-1` is none. Relations are ignored and counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample, entity_of, in_order
from rayner.data.readers.offsets import explain, holds
from rayner.data.schema import Document, Mention

_PASSAGE = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
MAX_DIGITS = 18
"""Offsets of more digits are none; Python refuses to read numbers of thousands."""
_GLUES = ("\n", "", "\n\n")


@dataclass(slots=True)
class _Abstract:
    document_id: str
    line: int
    passages: dict[str, str]
    rows: list[tuple[int, list[str]]] = field(default_factory=list)
    again: str = ""
    """Which passage it has twice, with no mention between them."""


def matches(sample: Sample) -> bool:
    """Whether the first line that is not blank is a title or an abstract."""
    first = next((line for line in sample.lines if line.strip()), "")
    return _PASSAGE.match(first) is not None


def read(unit: FileUnit) -> Reading:
    """The documents of a PubTator file."""
    reading = Reading()
    (path,) = unit.paths
    abstract: _Abstract | None = None
    for number, line in enumerate(files.split_lines(files.read_text(path, reading)), 1):
        if not line.strip():
            continue
        passage = _PASSAGE.match(line)
        if passage is not None:
            document_id, part, text = passage.groups()
            is_same = abstract is not None and abstract.document_id == document_id
            if abstract is not None and is_same and part in abstract.passages and not abstract.rows:
                abstract.again = part
                continue
            if abstract is None or not is_same or part in abstract.passages:
                _finish(abstract, path, reading)
                abstract = _Abstract(document_id, number, {})
            abstract.passages[part] = text
            continue
        fields = line.split("\t")
        if abstract is None or fields[0] != abstract.document_id:
            what = f"{line[:40]!r} belongs to no title or abstract above it"
            hint = "write ID|t|title and ID|a|abstract before it"
            if abstract is not None and line.split(None, 1)[0] == abstract.document_id:
                what, hint = f"{line[:40]!r} has no tab after its ID", "write tabs between its fields"
            reading.reject(f"{path}:{number}", what, hint)
        else:
            abstract.rows.append((number, fields))
    _finish(abstract, path, reading)
    return reading


def _finish(abstract: _Abstract | None, path: str, reading: Reading) -> None:
    if abstract is None:
        return
    if abstract.again:
        what = f"a second line {abstract.document_id}|{abstract.again}| of one document"
        hint = "write its text on one line, to which the offsets count"
        reading.reject(f"{path}:{abstract.line}", what, hint, abstract.document_id)
        return
    rows = [(number, row) for number, row in abstract.rows if not _is_relation(row)]
    if len(rows) < len(abstract.rows):
        reading.ignored["relation"] += len(abstract.rows) - len(rows)
    text = _text(abstract, [row for _, row in rows], reading)
    mentions = []
    for number, row in rows:
        mention = _mention(text, row, f"{path}:{number}", abstract.document_id, reading)
        if mention is not None:
            mentions.append(mention)
    reading.add(Document(abstract.document_id, text, in_order(mentions)), f"{path}:{abstract.line}")


def _is_relation(row: Sequence[str]) -> bool:
    # Of relations such as BioRED's, the ids of genes are numbers: `ID Association 6331 D008133 Novel`.
    # What begins with another character may be an offset that somebody wrote wrongly: 12.0, -1.
    if len(row) < 3 or not row[1][:1].isalpha():
        return False
    return not any(map(str.isdigit, row[1])) or not _is_offset(row[2])


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def _text(abstract: _Abstract, rows: Sequence[Sequence[str]], reading: Reading) -> str:
    """Title and abstract with one character between them, or none or two where only those fit the offsets."""
    title, body = abstract.passages.get("t", ""), abstract.passages.get("a")
    if not body:
        return title
    spans = [
        (int(r[1]), int(r[2]), r[3]) for r in rows if len(r) > 4 and _is_offset(r[1]) and _is_offset(r[2])
    ]
    scores = []
    for glue in _GLUES:
        text = title + glue + body
        scores.append(sum(text[start:end].split() == surface.split() for start, end, surface in spans))
        if scores[-1] == len(spans):
            break
    best = scores.index(max(scores))
    if best:
        reading.repaired[f"{len(_GLUES[best])} characters between title and abstract"] += 1
    return title + _GLUES[best] + body


def _mention(text: str, row: Sequence[str], where: str, document_id: str, reading: Reading) -> Mention | None:
    if len(row) < 5 or not _is_offset(row[1]) or not _is_offset(row[2]):
        what, hint = "is not ID, start, end, text, type", "write at least five fields between tabs"
        if len(row) > 4:
            hint = "write start and end as whole numbers, of characters from the title's first"
        reading.reject(where, f"{' '.join(row)[:60]!r} {what}", hint, document_id)
        return None
    start, end, surface, type_ = int(row[1]), int(row[2]), row[3], row[4].strip()
    if not holds(text, start, end, surface, reading):
        # The surface of a mention at a wrong place may lead or trail in white space that hides the right one.
        reading.reject(where, *explain(text, start, end, surface.strip()), document_id)
        return None
    return Mention(start, end, type_, entity_of(row[5]) if len(row) > 5 else None)
