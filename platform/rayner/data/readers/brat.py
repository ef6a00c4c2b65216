"""brat standoff: NAME.txt beside NAME.ann, either packed (.gz) or not.

Entity ids come from normalizations (`N1 Reference T1 ID`, or `N1 Name Annotation:T1 Referent:ID` as in
BioNLP's shared tasks) or, without one, from AnnotatorNotes that are one word with a digit or
`entity_id: ID`. Relations, events and attributes are ignored and counted; discontinuous mentions are
rejected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample, entity_of, in_order
from rayner.data.readers.offsets import explain, holds
from rayner.data.schema import Document, Mention
from rayner.errors import CorpusError

NOTE_OF_ID = "entity_id: "
"""What a note begins with that is an entity id although it has no digit."""
_PLACES = re.compile(r"(T[^\t]*\t\S+ )(\d+ \d+(?:;\d+ \d+)*)(?=\t)")
_OTHER = {"R": "relation", "E": "event", "A": "attribute", "M": "attribute", "*": "equivalence"}


def units(paths: Sequence[Path]) -> list[FileUnit]:
    """One unit a pair of text and annotations; either without the other is a unit that reads as a reject."""
    pairs: dict[Path, list[Path]] = {}
    for path in paths:
        pairs.setdefault(path.with_name(files.stem(path)), []).append(path)
    for pair in pairs.values():
        if len(pair) == 1:
            pair += _twin(pair[0])
    bases = [base.with_name(base.name + ".txt") for base in pairs]
    return [
        FileUnit("brat", tuple(str(p) for p in sorted(pair, key=_is_notes)), name)
        for pair, name in zip(pairs.values(), files.names(bases), strict=True)
    ]


def matches(sample: Sample) -> bool:
    """Whether the file holds annotations, or lies beside one that does."""
    return _is_notes(sample.path) or bool(_twin(sample.path))


def read(unit: FileUnit) -> Reading:
    """The document of a pair of files."""
    reading = Reading()
    if len(unit.paths) != 2:
        path, *others = unit.paths
        if others:
            raise CorpusError(path, f"lies beside {' and '.join(others)}", "keep one .txt and one .ann")
        missing = ".txt" if _is_notes(Path(path)) else ".ann"
        raise CorpusError(path, f"no {missing} file beside it", "add it (an empty .ann has no mentions)")
    text_path, notes_path = unit.paths
    text = files.read_text(text_path, reading)
    lines = files.split_lines(files.read_text(notes_path, reading, may_be_empty=True))
    entities = _entities(lines, reading)
    if "byte-order mark removed" in reading.repaired and _count_a_mark(text, lines):
        lines = [_PLACES.sub(_one_less, line, count=1) for line in lines]
        reading.repaired["offsets that count a byte-order mark"] += 1
    mentions = []
    for number, line in enumerate(lines, 1):
        if line.startswith("T"):
            mention = _mention(text, line, f"{notes_path}:{number}", unit.name, entities, reading)
            if mention is not None:
                mentions.append(mention)
        elif line.strip() and line[0] not in "N#":
            if line[0] in _OTHER:
                reading.ignored[_OTHER[line[0]]] += 1
            else:
                reading.reject(f"{notes_path}:{number}", f"{line[:40]!r} is no annotation", "", unit.name)
    reading.add(Document(unit.name, text, in_order(mentions)), text_path)
    return reading


def is_id(note: str) -> bool:
    """Whether a note is an entity id: one word with a digit. Without one it is a remark: "unsure"."""
    return len(note.split()) == 1 and any(map(str.isdigit, note))


def _is_notes(path: Path) -> bool:
    return files.suffix(path) == ".ann"


def _twin(path: Path) -> list[Path]:
    """The other half of a pair, packed or not, if it is there."""
    name = files.stem(path) + (".txt" if _is_notes(path) else ".ann")
    return [twin for twin in (path.with_name(name), path.with_name(f"{name}.gz")) if twin.exists()][:1]


def _entities(lines: Sequence[str], reading: Reading) -> dict[str, str | None]:
    """The entity id of each T line; several normalizations are joined by `|`, and of notes the first with an
    id counts."""
    notes: dict[str, str | None] = {}
    references: dict[str, list[str]] = {}
    for line in lines:
        fields = line.split("\t")
        if line.startswith("N"):
            words = fields[1].split(" ") if len(fields) > 1 else []
            if len(words) > 2:
                target, id_ = words[1].removeprefix("Annotation:"), " ".join(words[2:])
                if target != words[1]:
                    id_ = id_.removeprefix("Referent:")
                references.setdefault(target, []).append(id_)
            else:
                reading.ignored["normalization without an id"] += 1
        elif line.startswith("#"):
            words = fields[1].split() if len(fields) > 1 else []
            note = fields[2].strip() if len(fields) > 2 else ""
            id_ = note.removeprefix(NOTE_OF_ID)
            is_of_id = is_id(note) or (id_ != note and len(id_.split()) == 1)
            if len(words) == 2 and words[0] == "AnnotatorNotes" and is_of_id and words[1] not in notes:
                notes[words[1]] = entity_of(id_)
            else:
                reading.ignored["comment"] += 1
    return notes | {target: entity_of("|".join(ids)) for target, ids in references.items()}


def _count_a_mark(text: str, lines: Sequence[str]) -> bool:
    """Whether most mentions lie one place before their offsets: brat counts a byte-order mark."""
    places = [(found, line.split("\t", 2)) for line in lines if (found := _PLACES.match(line))]
    ends = [(*map(int, found[2].split()), parts[2]) for found, parts in places if ";" not in found[2]]
    before = sum(text[start - 1 : end - 1] == surface for start, end, surface in ends if start)
    return before > sum(text[start:end] == surface for start, end, surface in ends)


def _one_less(found: re.Match[str]) -> str:
    return found[1] + re.sub(r"\d+", lambda number: str(int(number[0]) - 1), found[2])


def _mention(
    text: str, line: str, where: str, document_id: str, entities: dict[str, str | None], reading: Reading
) -> Mention | None:
    try:
        key, place, surface = line.split("\t", 2)
        type_, _, offsets = place.partition(" ")
        parts = [tuple(map(int, part.split(" "))) for part in offsets.split(";")]
        spans = [(start, end) for start, end in parts]
    except ValueError:
        what = f"{line[:60]!r} is not T<n>, type start end, text"
        reading.reject(where, what, "write three fields between tabs", document_id)
        return None
    start, end = spans[0][0], spans[-1][1]
    if any(after < before or text[before:after].strip() for (_, before), (after, _) in pairwise(spans)):
        what = f"a discontinuous mention at {offsets}"
        reading.reject(where, what, "annotate each part, or the whole stretch", document_id)
        return None
    if not holds(text, start, end, surface, reading):
        reading.reject(where, *explain(text, start, end, surface), document_id)
        return None
    if len(spans) > 1:
        reading.repaired["parts of a mention joined over white space"] += 1
    return Mention(start, end, type_, entities.get(key))
