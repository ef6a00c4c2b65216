"""A corpus read in parts, each part kept when it is done, and put together at the end.

Each part is a folder (see `part_folders`) of `documents.parquet`, `ids.parquet` (their ids, hashes, places
and notes) and `part.json` (counts and rejects). Its name is the part's key: that of the files' names, sizes
and times and of what is done with the documents.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rayner.counted import counted
from rayner.data import scans
from rayner.data.example_shards import content_hash
from rayner.data.readers import FileUnit, Reading, Reject, read_unmerged
from rayner.data.readers.detect import COUNTS, REJECTS
from rayner.data.readers.files import is_fault
from rayner.data.readers.merge import TWICE, join
from rayner.data.schema import Document
from rayner.data.writers import write_parquet
from rayner.errors import CorpusError, FileError, RaynerError, StorageError
from rayner.files.fetching import local
from rayner.files.whole import whole_file
from rayner.runtime.corpora.part_folders import Output, put_whole
from rayner.runtime.corpora.taken import Taken, take_as, take_as_parquet
from rayner.runtime.faults import pause, read_fault
from rayner.runtime.parallel import parallel_map
from rayner.runtime.progress import track
from rayner.runtime.repeated_ids import by_block, repeated

if TYPE_CHECKING:
    # Not at run time: it brings torch into each process that reads a corpus.
    from rayner.tasks.base import ParallelMap

SMALL_BYTES = 64 * 2**20
"""Inputs below this are read faster in this process than Ray starts."""
DOCUMENTS = "documents.parquet"
IDS = "ids.parquet"
_PART = "part.json"
_CUTS = "cuts"
"""The purpose of the folders among those of parts that say where large files were cut."""

T = TypeVar("T")

Notes = Mapping[str, Sequence[int]]
"""Numbers about a document that add up over the corpus."""
Change = Callable[[Document], tuple[Document, Notes]]
"""What becomes of a document; a CorpusError rejects it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """Files, or a part of a large file, that are read together; the key is that of what is made of them."""

    key: str
    of: scans.Part

    def __str__(self) -> str:
        return str(self.of)


@dataclass(frozen=True, slots=True)
class Assembled:
    """What became of all parts."""

    documents: int
    mentions: Counter[str]
    repaired: Counter[str]
    ignored: Counter[str]
    rejected: int
    notes: dict[str, list[int]]
    lost: Counter[str]


def unchanged(document: Document) -> tuple[Document, Notes]:
    """The change that changes nothing."""
    return document, {}


def cut_parts(units: Iterable[FileUnit], purpose: str, part_bytes: int | None = None) -> list[Part]:
    """Units in order, small ones together. `purpose` tells what is done with the documents."""
    return [Part(part.key(purpose), part) for part in scans.cut_parts(units, part_bytes)]


def split_large(
    parts: Sequence[Part], purpose: str, output: Output, mapper: ParallelMap, part_bytes: int | None = None
) -> list[Part]:
    """The parts, with those of large files cut further. What is not cut yet is read once for that."""
    large = {
        unit: part.key
        for part in parts
        if part.of.size >= 2 * scans.PART_BYTES
        for unit in part.of.units
        if scans.is_large(unit)
    }
    if not large:
        return [*parts]
    cuts = {unit: cut_parts([unit], _CUTS)[0] for unit in large}
    there = output.finished_parts()
    missing = [part for part in cuts.values() if part.key not in there]
    for _ in track(mapper(partial(_cut, output.parts), missing), len(missing), "cut large files"):
        pass
    output.fetch([part.key for part in cuts.values()], lambda _: True)

    def pieces(units: Iterable[FileUnit]) -> Iterator[FileUnit]:
        for unit in units:
            yield from scans.parts_of(output.known / cuts[unit].key, unit) if unit in large else [unit]

    again = set(large.values())
    return [
        piece
        for part in parts
        for piece in (cut_parts(pieces(part.of.units), purpose, part_bytes) if part.key in again else [part])
    ]


def mapper_for(parts: Sequence[Part | scans.Part], workers: int | None, small: int) -> ParallelMap:
    """How parts are worked on: by so many Ray tasks at once, or in this process.

    Args:
        workers: 0 for this process; None decides by the size of the parts and by how many there are.
        small: parts of fewer bytes together are worked on in this process where `workers` is None.
    """
    files = [part.of if isinstance(part, Part) else part for part in parts]
    if workers is None and sum(part.size for part in files) < small:
        workers = 0

    def mapper(work: Callable[[Any], Any], parts: Sequence[Any]) -> Iterator[Any]:
        alone = workers is None and len(parts) < 2
        return parallel_map(work, parts, 0 if alone else workers)

    return mapper


def read_parts(
    parts: Sequence[Part], change: Change, output: Output, mapper: ParallelMap, label: str
) -> None:
    """Read and change the documents of those parts that are not there yet."""
    there = output.finished_parts()
    missing = [part for part in parts if part.key not in there]
    if len(missing) < len(parts):
        log.info("%s: going on after %d of %s", label, len(parts) - len(missing), counted(len(parts), "part"))
    for _ in track(mapper(partial(_read_part, change, output.parts), missing), len(missing), label):
        pass
    output.fetch([part.key for part in parts], {IDS, _PART}.__contains__)


def assemble(parts: Sequence[Part], output: Output, to: str, mapper: ParallelMap) -> Assembled:
    """Put the parts together in the output, each document once: `documents-*`, or files of other names, in
    the format `to`, and `rejects.jsonl`; what the format cannot hold is in `losses.jsonl`.
    """
    counted = {name: Counter() for name in ("mentions", "repaired", "ignored")}
    notes: dict[str, list[int]] = {}
    rejected = 0
    taken: list[Taken] = []
    with (
        TemporaryDirectory(prefix="rayner-ids-") as ids,
        whole_file(output.folder / REJECTS) as path,
        path.open("w", encoding="utf-8") as rejects,
    ):
        found = _repeated(parts, output.known, Path(ids))
        upcoming = next(found, None)
        for number, part in enumerate(parts):
            folder = output.known / part.key
            sidecar = json.loads((folder / _PART).read_text("utf-8"))
            told = pq.read_table(folder / IDS, columns=["notes"])["notes"]
            kept, clashes = np.ones(len(told), bool), list[dict[str, Any]]()
            if upcoming is not None and upcoming["block"][0].as_py() == number:
                kept[upcoming["row"].to_numpy()] = False
                clashes = clashes_of(upcoming)
                upcoming = next(found, None)
            for name, counter in counted.items():
                # Of a part of which not all is kept, those are known once what is kept is written.
                if name != "mentions" or kept.all():
                    counter.update(sidecar[name])
            for row in chain(sidecar["rejects"], clashes):
                rejects.write(json.dumps(row, ensure_ascii=False) + "\n")
                rejected += 1
            counted["repaired"][TWICE] += int((~kept).sum()) - len(clashes)
            for text in told.filter(pa.array(kept)).to_pylist():
                _add(notes, json.loads(text))
            if kept.any():
                taken.append(Taken(output.parts / part.key / DOCUMENTS, kept))
    mentions, repaired, ignored = (+counter for counter in counted.values())
    documents = sum(int(one.kept.sum()) for one in taken)
    lost: Counter[str] = Counter()
    if not taken:
        # Of an earlier conversion all stays.
        return Assembled(0, mentions, repaired, ignored, rejected, notes, lost)
    # Until all is in its place again, the folder does not count as finished.
    (output.folder / COUNTS).unlink(missing_ok=True)
    if to == "parquet":
        mentions += take_as_parquet(taken, output, mapper)
    else:
        documents, mentions, lost = take_as(to, taken, output, mapper)
    return Assembled(documents, mentions, repaired, ignored, rejected, notes, lost)


def _cut(folder: Path, part: Part) -> None:
    (unit,) = part.of.units

    def cut(made: Path) -> None:
        with_patience(partial(scans.parts_of, made, unit), unit)
        part.of.check_unchanged()

    put_whole(folder / part.key, cut)


def _read_part(change: Change, folder: Path, part: Part) -> None:
    put_whole(folder / part.key, partial(_read_into, change, part))


def _read_into(change: Change, part: Part, folder: Path) -> None:
    reading = join(map(read_patiently, part.of.units))
    part.of.check_unchanged()
    changed = _changed(reading, change)
    hashes = [content_hash(document) for document in reading.documents]
    write_parquet((document for document, _ in changed), folder / DOCUMENTS)
    ids = {
        "document_id": pa.array([d.document_id for d in reading.documents], pa.string()),
        "digest": pa.array(hashes, pa.binary()),
        "place": pa.array([str(place) for place in reading.places], pa.string()),
        "notes": pa.array([json.dumps(notes) for _, notes in changed], pa.string()),
    }
    pq.write_table(pa.table(ids), folder / IDS)
    sidecar = {
        "mentions": Counter(m.type for document, _ in changed for m in document.mentions),
        "repaired": reading.repaired,
        "ignored": reading.ignored,
        "rejects": [reject.to_row() for reject in reading.rejects],
    }
    (folder / _PART).write_text(json.dumps(sidecar, default=str), "utf-8")


def _changed(reading: Reading, change: Change) -> list[tuple[Document, Notes]]:
    """The documents changed; what was read loses those that the change rejects."""
    changed, kept = [], []
    for place, document in enumerate(reading.documents):
        try:
            changed.append(change(document))
            kept.append(place)
        except CorpusError as error:
            reading.reject(reading.places[place], error.what, error.hint, document.document_id)
    reading.documents = [reading.documents[place] for place in kept]
    reading.places = [reading.places[place] for place in kept]
    return changed


def read_patiently(unit: FileUnit, kept: bool = True) -> Reading:
    """What a unit holds; a unit that no reader gets through is one reject.

    Args:
        kept: what the run did so far is taken up by the next one.

    Raises:
        RaynerError: the bytes of a file cannot be had, or there is no memory for them, try after try.
    """
    return with_patience(partial(_read_once, unit), unit, kept)


def with_patience(do: Callable[[], T], unit: FileUnit, kept: bool = True) -> T:
    """What a work on the file of a unit gives, tried again where the system or storage fails it.

    Raises:
        RaynerError: it fails, try after try.
    """
    failures = 0
    while True:
        try:
            return do()
        except (OSError, MemoryError, FileError, StorageError) as error:
            failures += 1
            known = isinstance(error, RaynerError)
            pause(failures, error if known else read_fault(", ".join(unit.paths), error, kept))


def _read_once(unit: FileUnit) -> Reading:
    try:
        for path in unit.paths:
            # The driver has listed it: where it is not there, or closed to this worker, that is a fault.
            local(path).open("rb").close()
        return read_unmerged(unit)
    except (
        Exception
    ) as error:  # one file must not end the work on all others, whatever is wrong with its content
        # A reader says what is wrong with the content by a CorpusError, which is a reject by now.
        if is_fault(error) or isinstance(error, RaynerError):
            raise
        log.warning("%s could not be read", unit.paths[0], exc_info=True)
        reading = Reading()
        reading.reject(
            unit.paths[0], f"{type(error).__name__}: {error}", "take the file out, and report this"
        )
        return reading


def _repeated(parts: Sequence[Part], folder: Path, temporary: Path) -> Iterator[pa.Table]:
    """For each part with documents whose id an earlier one has, those, in the order of the parts."""
    paths = [folder / part.key / IDS for part in parts]
    documents = sum(pq.read_metadata(path).num_rows for path in paths)

    def tables(columns: list[str]) -> Iterator[pa.Table]:
        return (pq.read_table(path, columns=columns) for path in paths)

    found = repeated(tables, ["digest", "place"], documents, len(parts), temporary)
    return chain.from_iterable(map(by_block, found))


def clashes_of(again: pa.Table) -> list[dict[str, Any]]:
    """A reject for each document that is another one than the first of its id."""
    rows = again.filter(pc.call_function("not_equal", [again["digest"], again["first_digest"]])).to_pylist()
    hint = "give each document an id of its own"
    return [
        Reject(
            row["place"],
            f"document {row['document_id']!r} differs from the one at {row['first_place']}",
            hint,
            row["document_id"],
        ).to_row()
        for row in rows
    ]


def _add(total: dict[str, list[int]], notes: Notes) -> None:
    for name, numbers in notes.items():
        total[name] = [a + b for a, b in zip(total.get(name, [0] * len(numbers)), numbers, strict=True)]
