"""A corpus read in parts, each part kept when it is done, and put together at the end.

While the work goes on, the parts lie in a hidden folder of the output: `KEY.parquet` (documents),
`KEY.ids.parquet` (their ids, hashes, places and notes) and, last, `KEY.json` (counts and rejects). The key is
that of the files' names, sizes and times and of what is done with the documents.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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

from rayner.data import scans
from rayner.data.example_shards import canonical
from rayner.data.readers import Reading, Reject, Unit, read_unmerged
from rayner.data.readers.files import is_fault
from rayner.data.readers.merge import TWICE, join
from rayner.data.schema import Document, documents_from_table
from rayner.data.writers import write_parquet
from rayner.errors import CorpusError, FileError, RaynerError, StorageError
from rayner.files.fetching import local
from rayner.files.whole import whole_file
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
PARTS = ".parts"
CUTS = "cuts"
"""The folder among the parts that says where large files were cut."""

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
        return ", ".join(path for unit in self.of.units for path in unit.paths)


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


def cut_parts(units: Iterable[Unit], purpose: str, part_bytes: int | None = None) -> list[Part]:
    """Units in order, small ones together. `purpose` tells what is done with the documents."""
    return [Part(part.key(purpose), part) for part in scans.cut_parts(units, part_bytes)]


def split_large(
    parts: Sequence[Part], purpose: str, out: Path, mapper: ParallelMap, part_bytes: int | None = None
) -> list[Part]:
    """The parts, with those of large files cut further. What is not cut yet is read once for that."""
    folder = out / PARTS / CUTS
    large = {
        unit: part.key
        for part in parts
        if part.of.size >= 2 * scans.PART_BYTES
        for unit in part.of.units
        if scans.is_large(unit)
    }
    missing = [unit for unit in large if not scans.are_known(folder, unit)]
    for _ in track(mapper(partial(_cut, folder), missing), len(missing), "cut large files"):
        pass
    again = set(large.values())
    return [
        piece
        for part in parts
        for piece in (
            cut_parts(_pieces(folder, part.of.units, large), purpose, part_bytes)
            if part.key in again
            else [part]
        )
    ]


def mapper_for(
    parts: Sequence[Part | scans.Part], workers: int | None, small: int, here: bool = False
) -> ParallelMap:
    """How parts are worked on: by so many Ray tasks at once, or in this process.

    Args:
        workers: 0 for this process; None decides by the size of the parts and by how many there are.
        small: parts of fewer bytes together are worked on in this process where `workers` is None.
        here: on this node alone, whose folders others do not see.
    """
    files = [part.of if isinstance(part, Part) else part for part in parts]
    if workers is None and sum(part.size for part in files) < small:
        workers = 0

    def mapper(work: Callable[[Any], Any], parts: Sequence[Any]) -> Iterator[Any]:
        alone = workers is None and len(parts) < 2
        return parallel_map(work, parts, 0 if alone else workers, here=here)

    return mapper


def read_parts(parts: Sequence[Part], change: Change, out: Path, mapper: ParallelMap, label: str) -> None:
    """Read and change the documents of those parts that are not there yet."""
    folder = out / PARTS
    folder.mkdir(parents=True, exist_ok=True)
    missing = [part for part in parts if not (folder / f"{part.key}.json").exists()]
    if len(missing) < len(parts):
        log.info("%s: going on after %d of %d parts", label, len(parts) - len(missing), len(parts))
    for _ in track(mapper(partial(_read_part, change, folder), missing), len(missing), label):
        pass


def assemble(parts: Sequence[Part], out: Path, to: str, mapper: ParallelMap) -> Assembled:
    """Put the parts together in `out`, each document once: `documents-*`, or files of other names, in the
    format `to`, and `rejects.jsonl`; what the format cannot hold is in `losses.jsonl`.
    """
    folder = out / PARTS
    counted = {name: Counter() for name in ("mentions", "repaired", "ignored")}
    notes: dict[str, list[int]] = {}
    rejected = 0
    taken: list[Taken] = []
    with (
        TemporaryDirectory(prefix="rayner-ids-") as ids,
        whole_file(out / "rejects.jsonl") as path,
        path.open("w", encoding="utf-8") as rejects,
    ):
        found = _repeated(parts, folder, Path(ids))
        upcoming = next(found, None)
        for number, part in enumerate(parts):
            sidecar = json.loads((folder / f"{part.key}.json").read_text("utf-8"))
            for name, counter in counted.items():
                counter.update(sidecar[name])
            told = pq.read_table(folder / f"{part.key}.ids.parquet", columns=["notes"])["notes"]
            kept, clashes = np.ones(len(told), bool), list[dict[str, Any]]()
            if upcoming is not None and upcoming["block"][0].as_py() == number:
                kept[upcoming["row"].to_numpy()] = False
                clashes = clashes_of(upcoming)
                upcoming = next(found, None)
            for row in chain(sidecar["rejects"], clashes):
                rejects.write(json.dumps(row, ensure_ascii=False) + "\n")
                rejected += 1
            counted["repaired"][TWICE] += int((~kept).sum()) - len(clashes)
            for text in told.filter(pa.array(kept)).to_pylist():
                _add(notes, json.loads(text))
            if kept.any():
                taken.append(Taken(folder / f"{part.key}.parquet", kept))
            counted["mentions"].subtract(_left_out(folder / f"{part.key}.parquet", kept))
    mentions, repaired, ignored = (+counter for counter in counted.values())
    documents = sum(int(one.kept.sum()) for one in taken)
    lost: Counter[str] = Counter()
    if to == "parquet":
        take_as_parquet(taken, out, mapper)
    else:
        documents, mentions, lost = take_as(to, taken, out, mapper)
    return Assembled(documents, mentions, repaired, ignored, rejected, notes, lost)


def remove_parts(out: Path) -> None:
    """Forget the parts."""
    shutil.rmtree(out / PARTS, ignore_errors=True)


def _cut(folder: Path, unit: Unit) -> None:
    with_patience(partial(scans.parts_of, folder, unit), unit)


def _pieces(folder: Path, units: Iterable[Unit], large: Collection[Unit]) -> Iterator[Unit]:
    for unit in units:
        yield from scans.parts_of(folder, unit) if unit in large else [unit]


def _read_part(change: Change, folder: Path, part: Part) -> None:
    reading = join(map(read_patiently, part.of.units))
    part.of.check_unchanged()
    changed = _changed(reading, change)
    hashes = [digest_of(document) for document in reading.documents]
    write_parquet((document for document, _ in changed), folder / f"{part.key}.parquet")
    ids = {
        "document_id": pa.array([d.document_id for d in reading.documents], pa.string()),
        "digest": pa.array(hashes, pa.binary()),
        "place": pa.array([str(place) for place in reading.places], pa.string()),
        "notes": pa.array([json.dumps(notes) for _, notes in changed], pa.string()),
    }
    with whole_file(folder / f"{part.key}.ids.parquet") as path:
        pq.write_table(pa.table(ids), path)
    sidecar = {
        "mentions": Counter(m.type for document, _ in changed for m in document.mentions),
        "repaired": reading.repaired,
        "ignored": reading.ignored,
        "rejects": [reject.to_row() for reject in reading.rejects],
    }
    # Last: where this is, the other two are.
    with whole_file(folder / f"{part.key}.json") as path:
        path.write_text(json.dumps(sidecar, default=str), "utf-8")


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


def read_patiently(unit: Unit, kept: bool = True) -> Reading:
    """What a unit holds; a unit that no reader gets through is one reject.

    Args:
        kept: what the run did so far is taken up by the next one.

    Raises:
        RaynerError: the bytes of a file cannot be had, or there is no memory for them, try after try.
    """
    return with_patience(partial(_read_once, unit), unit, kept)


def with_patience(do: Callable[[], T], unit: Unit, kept: bool = True) -> T:
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


def _read_once(unit: Unit) -> Reading:
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


def digest_of(document: Document) -> bytes:
    """The same for documents that are the same in everything."""
    return hashlib.blake2b(canonical(document).encode(), digest_size=16).digest()


def _repeated(parts: Sequence[Part], folder: Path, temporary: Path) -> Iterator[pa.Table]:
    """For each part with documents whose id an earlier one has, those, in the order of the parts."""
    paths = [folder / f"{part.key}.ids.parquet" for part in parts]
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


def _left_out(source: Path, kept: np.ndarray) -> Counter[str]:
    """The mentions of the documents of a part that are not kept, by type."""
    if kept.all():
        return Counter()
    table = pq.read_table(source).filter(pa.array(~kept))
    return Counter(m.type for document in documents_from_table(table) for m in document.mentions)


def _add(total: dict[str, list[int]], notes: Notes) -> None:
    for name, numbers in notes.items():
        total[name] = [a + b for a, b in zip(total.get(name, [0] * len(numbers)), numbers, strict=True)]
