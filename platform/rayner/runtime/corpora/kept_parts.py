"""A corpus read in parts, each part kept when it is done, and put together at the end.

While the work goes on, the parts lie in a hidden folder of the output: `KEY.parquet` (documents),
`KEY.ids.parquet` (their ids, hashes, places and notes) and, last, `KEY.json` (counts and rejects). The key is
that of the files' names, sizes and times and of what is done with the documents.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.example_shards import canonical
from rayner.data.readers import Reading, Reject, Unit, read_unit
from rayner.data.readers.files import is_fault
from rayner.data.readers.merge import TWICE, merge
from rayner.data.schema import Document, documents_from_table
from rayner.data.writers import write_parquet
from rayner.errors import CorpusError
from rayner.files.whole import whole_file
from rayner.runtime.corpora.taken import Taken, take_as, take_as_parquet
from rayner.runtime.faults import pause, read_fault
from rayner.runtime.pipeline import parallel_map
from rayner.runtime.progress import track

PARTS = ".parts"
PART_BYTES = 8 * 2**20
PART_UNITS = 256

Notes = Mapping[str, Sequence[int]]
"""Numbers about a document that add up over the corpus."""
Change = Callable[[Document], tuple[Document, Notes]]
"""What becomes of a document; a CorpusError rejects it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """Units that are read together."""

    key: str
    units: tuple[Unit, ...]

    def __str__(self) -> str:
        return ", ".join(path for unit in self.units for path in unit.paths)


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


def cut_parts(units: Sequence[Unit], purpose: str, part_bytes: int = PART_BYTES) -> list[Part]:
    """Units in order, small ones together. `purpose` stands for what is done with the documents."""
    parts: list[Part] = []
    gathered: list[Unit] = []
    size = 0
    for unit in units:
        gathered.append(unit)
        size += size_of([unit])
        if size >= part_bytes or len(gathered) == PART_UNITS:
            parts.append(_part(gathered, purpose))
            gathered, size = [], 0
    return [*parts, _part(gathered, purpose)] if gathered else parts


def size_of(units: Iterable[Unit]) -> int:
    """The bytes of all files."""
    return sum(max(0, _stamp(path)[0]) for unit in units for path in unit.paths)


def read_parts(parts: Sequence[Part], change: Change, out: Path, workers: int | None, label: str) -> None:
    """Read and change the documents of those parts that are not there yet."""
    folder = out / PARTS
    folder.mkdir(parents=True, exist_ok=True)
    missing = [part for part in parts if not (folder / f"{part.key}.json").exists()]
    if len(missing) < len(parts):
        log.info("%s: going on after %d of %d parts", label, len(parts) - len(missing), len(parts))
    for _ in track(parallel_map(partial(_read_part, change, folder), missing, workers), len(missing), label):
        pass


def assemble(parts: Sequence[Part], out: Path, to: str = "parquet", workers: int | None = 0) -> Assembled:
    """Put the parts together in `out`, each document once: `documents-*`, or files of other names, in the
    format `to`, and `rejects.jsonl`; what the format cannot hold is in `losses.jsonl`.
    """
    folder = out / PARTS
    counted = {name: Counter() for name in ("mentions", "repaired", "ignored")}
    notes: dict[str, list[int]] = {}
    rejected = 0
    seen: dict[str, tuple[bytes, str]] = {}
    taken: list[Taken] = []
    with whole_file(out / "rejects.jsonl") as path, path.open("w", encoding="utf-8") as rejects:
        for part in parts:
            sidecar = json.loads((folder / f"{part.key}.json").read_text("utf-8"))
            for name, counter in counted.items():
                counter.update(sidecar[name])
            ids = pq.read_table(folder / f"{part.key}.ids.parquet")
            kept, clashes = _judge(ids, seen)
            for row in chain(sidecar["rejects"], clashes):
                rejects.write(json.dumps(row, ensure_ascii=False) + "\n")
                rejected += 1
            counted["repaired"][TWICE] += len(kept) - sum(kept) - len(clashes)
            for text in ids["notes"].filter(pa.array(kept, pa.bool_())).to_pylist():
                _add(notes, json.loads(text))
            if any(kept):
                taken.append(Taken(folder / f"{part.key}.parquet", np.array(kept)))
            counted["mentions"].subtract(_left_out(folder / f"{part.key}.parquet", kept))
    mentions, repaired, ignored = (+counter for counter in counted.values())
    documents = sum(int(one.kept.sum()) for one in taken)
    lost: Counter[str] = Counter()
    if to == "parquet":
        take_as_parquet(taken, out)
    else:
        documents, mentions, lost = take_as(to, taken, out, workers)
    return Assembled(documents, mentions, repaired, ignored, rejected, notes, lost)


def remove_parts(out: Path) -> None:
    """Forget the parts."""
    shutil.rmtree(out / PARTS, ignore_errors=True)


def _part(units: Sequence[Unit], purpose: str) -> Part:
    stamps = [(u.format, u.name, u.whole, [(p, *_stamp(p)) for p in u.paths]) for u in units]
    return Part(hashlib.sha256(canonical([purpose, stamps]).encode()).hexdigest()[:24], tuple(units))


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return -1, -1
    return found.st_size, found.st_mtime_ns


def _read_part(change: Change, folder: Path, part: Part) -> None:
    reading = merge(map(_read, part.units))
    changed = _changed(reading, change)
    hashes = [_digest(document) for document in reading.documents]
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


def _read(unit: Unit) -> Reading:
    """What a unit holds; a unit that no reader gets through is one reject.

    Raises:
        ReadFault: the bytes of a file cannot be had, or there is no memory for them, try after try.
    """
    failures = 0
    while True:
        try:
            return _read_once(unit)
        except (OSError, MemoryError) as error:
            failures += 1
            pause(failures, read_fault(", ".join(unit.paths), error))


def _read_once(unit: Unit) -> Reading:
    try:
        for path in unit.paths:
            # The driver has listed it: where it is not there, or closed to this worker, that is a fault.
            Path(path).open("rb").close()
        return read_unit(unit)
    except (
        Exception
    ) as error:  # one file must not end the work on all others, whatever is wrong with its content
        if is_fault(error):
            raise
        log.warning("%s could not be read", unit.paths[0], exc_info=True)
        reading = Reading()
        reading.reject(
            unit.paths[0], f"{type(error).__name__}: {error}", "take the file out, and report this"
        )
        return reading


def _digest(document: Document) -> bytes:
    return hashlib.blake2b(canonical(document).encode(), digest_size=16).digest()


def _judge(ids: pa.Table, seen: dict[str, tuple[bytes, str]]) -> tuple[list[bool], list[dict[str, Any]]]:
    """Which documents are kept, and a reject for each that has the id of another one."""
    kept: list[bool] = []
    clashes: list[dict[str, Any]] = []
    for row in ids.to_pylist():
        name = row["document_id"]
        kept.append(name not in seen)
        digest, place = seen.setdefault(name, (row["digest"], row["place"]))
        if digest != row["digest"]:
            what = f"document {name!r} differs from the one at {place}"
            clashes.append(Reject(row["place"], what, "give each document an id of its own", name).to_row())
    return kept, clashes


def _left_out(source: Path, kept: Sequence[bool]) -> Counter[str]:
    """The mentions of the documents of a part that are not kept, by type."""
    if all(kept):
        return Counter()
    table = pq.read_table(source).filter(pa.array([not keep for keep in kept], pa.bool_()))
    return Counter(m.type for document in documents_from_table(table) for m in document.mentions)


def _add(total: dict[str, list[int]], notes: Notes) -> None:
    for name, numbers in notes.items():
        total[name] = [a + b for a, b in zip(total.get(name, [0] * len(numbers)), numbers, strict=True)]
