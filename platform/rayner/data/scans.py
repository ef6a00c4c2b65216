"""What is known of the documents of files after reading them once: some bytes each, in place of themselves.

Whoever reads a part of a corpus returns a scan of it, and who has all scans can tell which documents are
given twice, where each one goes in a split, and whether anything changed since the last time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.example_shards import canonical, canonical_digest
from rayner.data.fine_types import gold_types
from rayner.data.readers import FileUnit, Reading, find_parts, read_unit
from rayner.data.readers.files import PART_BYTES, unreadable
from rayner.data.readers.merge import merge
from rayner.data.schema import Document, chained
from rayner.data.split import KEY_SCHEMA, codes_of, split_keys
from rayner.errors import FileError
from rayner.files.fetching import local
from rayner.files.whole import whole_file

VERSION = 3
PART_UNITS = 256

SCHEMA = pa.schema(
    [
        *KEY_SCHEMA,
        ("content", pa.binary(16)),
        ("size", pa.int32()),
        ("types", pa.list_(pa.int32())),
        ("fine_types", pa.list_(pa.int32())),
        ("chained", pa.bool_()),
    ]
)
"""Beside the keys of the split: a hash of all of the document and its length in characters as JSON, as it was
read; and, after the change, the type and the gold types of each mention, numbers in the list of the scan, and
whether any two of them corefer."""

Change = Callable[[Document], Document]
Stamp = tuple[int, int]
"""Size in bytes and time of the last change in nanoseconds."""
Cuts = list[tuple[tuple[int, int] | None, int]]
"""The span of each part of a file, and the lines or rows before it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Units that are read together, with the stamp of each file."""

    units: tuple[FileUnit, ...]
    stamps: tuple[Stamp, ...]

    def __str__(self) -> str:
        return ", ".join(_paths(self.units))

    def key(self, purpose: str) -> str:
        """The name of what is made of these files, as they are now, for a purpose."""
        units = [(u.format, u.name, u.whole, u.span, u.first, u.paths) for u in self.units]
        return canonical_digest([VERSION, purpose, units, self.stamps])[:32]

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(size for size, _ in self.stamps)

    def check_unchanged(self) -> None:
        """Say that a file was changed since the part was cut.

        Raises:
            FileError: it was, or is not there any more.
        """
        for path, stamp in zip(_paths(self.units), self.stamps, strict=True):
            if _stamp(path) != stamp:
                raise FileError(path, "changed while it was read", "start again")


@dataclass(frozen=True, slots=True)
class Scan:
    """A part as it was read.

    Attributes:
        table: a row of `SCHEMA` for each document, in order.
        types: of its mentions, fine ones included.
        rejected: how much could not be read; `first` is where and what it was, and what to do about it.
    """

    table: pa.Table
    types: tuple[str, ...] = ()
    rejected: int = 0
    first: tuple[str, str, str] | None = None


class DistinctDocuments(NamedTuple):
    """The documents of a corpus that count: each id once.

    Attributes:
        rows: [N] bool, over all scans.
        clashes: [C] rows that have the id of another document and another content.
        owners: [C] the rows that have their ids.
    """

    rows: np.ndarray
    clashes: np.ndarray
    owners: np.ndarray


def cut_parts(units: Iterable[FileUnit], part_bytes: int | None = None) -> list[Part]:
    """Units in order, small ones together.

    Args:
        part_bytes: how much is read together, at least; PART_BYTES if unset.

    Raises:
        FileError: a file that is not there.
    """
    part_bytes = PART_BYTES if part_bytes is None else part_bytes
    parts: list[Part] = []
    gathered: list[FileUnit] = []
    stamps: dict[str, Stamp] = {}
    size = 0
    for unit in units:
        gathered.append(unit)
        stamps |= {path: stamps.get(path) or _stamp(path) for path in unit.paths}
        size += PART_BYTES if unit.span else sum(stamps[path][0] for path in unit.paths)
        if size >= part_bytes or len(gathered) == PART_UNITS:
            parts.append(Part(tuple(gathered), tuple(stamps.values())))
            gathered, stamps, size = [], {}, 0
    return [*parts, Part(tuple(gathered), tuple(stamps.values()))] if gathered else parts


def is_large(unit: FileUnit) -> bool:
    """Whether it may be worth reading in parts.

    Raises:
        FileError: a file that is not there.
    """
    return sum(_stamp(path)[0] for path in unit.paths) >= 2 * PART_BYTES


def place_of_cuts(folder: Path, unit: FileUnit) -> Path:
    """Where it is kept how a large file was cut, for as long as the file does not change."""
    return folder / f"{_part([unit]).key('parts')}.json"


def cuts_of(unit: FileUnit) -> Cuts:
    """How `find_parts` cuts a file.

    Raises:
        FileError: a file that cannot be read.
    """
    try:
        return [(part.span, part.first) for part in find_parts(unit)]
    except OSError as error:
        raise unreadable(unit.paths[0], error) from None


def keep_cuts(cuts: Cuts, path: Path) -> None:
    """Write cuts whole or not at all."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(cuts), "utf-8")


def load_cuts(path: Path) -> Cuts:
    """What `keep_cuts` wrote."""
    return [(span and tuple(span), first) for span, first in json.loads(path.read_text("utf-8"))]


def with_cuts(unit: FileUnit, cuts: Cuts) -> list[FileUnit]:
    """The parts of a file."""
    return [replace(unit, span=span, first=first) for span, first in cuts]


def parts_of(folder: Path | None, unit: FileUnit) -> list[FileUnit]:
    """As `find_parts`; the folder keeps the cuts.

    Raises:
        FileError: a file that cannot be read.
    """
    if folder is None:
        return with_cuts(unit, cuts_of(unit))
    path = place_of_cuts(folder, unit)
    if not path.exists():
        keep_cuts(cuts_of(unit), path)
    return with_cuts(unit, load_cuts(path))


def read_part(part: Part) -> Reading:
    """The documents of a part, each once.

    Raises:
        FileError: a file that cannot be read.
    """
    try:
        return merge(map(read_unit, part.units))
    except OSError as error:
        raise unreadable(error.filename or part.units[0].paths[0], error) from None


def scan(change: Change, part: Part) -> Scan:
    """Read a part, and see what is in it and what a change makes of its mentions.

    Raises:
        FileError: a file that cannot be read, or was changed since the part was cut.
    """
    reading = read_part(part)
    part.check_unchanged()
    types: dict[str, int] = {}
    rows = []
    for document in reading.documents:
        changed = change(document)
        of_mentions, fine = (
            [types.setdefault(name, len(types)) for name in names]
            for names in (
                [mention.type for mention in changed.mentions],
                [name for mention in changed.mentions for name in gold_types(mention)],
            )
        )
        rows.append((*_content(document), of_mentions, fine, bool(chained(changed))))
    table = split_keys(reading.documents)
    fields = list(SCHEMA)[len(KEY_SCHEMA) :]
    for field, values in zip(fields, zip(*rows, strict=True) if rows else [()] * len(fields), strict=True):
        table = table.append_column(field, pa.array(values, field.type))
    first = next(((reject.where, reject.what, reject.hint) for reject in reading.rejects), None)
    return Scan(table, tuple(types), len(reading.rejects), first)


def load_scan(path: Path) -> Scan | None:
    """What `save_scan` wrote; None where it did not."""
    try:
        # A power cut leaves empty files.
        table = pq.read_table(path) if path.stat().st_size else None
    except FileNotFoundError:
        return None
    if table is None:
        return None
    found = json.loads(table.schema.metadata[b"scan"])
    first = found["first"] and tuple(found["first"])
    return Scan(table.replace_schema_metadata(), tuple(found["types"]), found["rejected"], first)


def save_scan(found: Scan, path: Path) -> None:
    """Write a scan whole or not at all."""
    about = {"types": found.types, "rejected": found.rejected, "first": found.first}
    with whole_file(path) as partial:
        pq.write_table(found.table.replace_schema_metadata({"scan": json.dumps(about)}), partial)


def keep(keys: pa.Table) -> DistinctDocuments:
    """Of documents with the same id the first one counts."""
    codes = codes_of(keys["document_id"])
    # A code that is larger than all before it is the first of its id.
    rows = codes > np.maximum.accumulate(np.concatenate([[-1], codes]))[:-1]
    again = np.flatnonzero(~rows)
    if not len(again):
        return DistinctDocuments(rows, again, again)
    owners = np.flatnonzero(rows)[codes[again]]
    one, other = (keys["content"].take(pa.array(places)).combine_chunks() for places in (again, owners))
    differs = np.array([a != b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], bool)
    return DistinctDocuments(rows, again[differs], owners[differs])


def digest_of(contents: pa.ChunkedArray) -> str:
    """A hash of the documents that these hashes are of."""
    found = hashlib.sha256()
    for chunk in contents.chunks:
        begin = chunk.offset * 16
        found.update(memoryview(chunk.buffers()[1])[begin : begin + 16 * len(chunk)])
    return found.hexdigest()


def digest(documents: Iterable[Document]) -> str:
    """As `digest_of` their hashes."""
    return hashlib.sha256(b"".join(_content(document)[0] for document in documents)).hexdigest()


def _content(document: Document) -> tuple[bytes, int]:
    """The hash of a document, and its characters as JSON."""
    content = canonical(document)
    return hashlib.blake2b(content.encode(), digest_size=16).digest(), len(content)


def _part(units: Sequence[FileUnit]) -> Part:
    return Part(tuple(units), tuple(map(_stamp, _paths(units))))


def _paths(units: Iterable[FileUnit]) -> list[str]:
    return list(dict.fromkeys(path for unit in units for path in unit.paths))


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(local(path))
    except OSError as error:
        raise unreadable(path, error) from None
    return found.st_size, found.st_mtime_ns
