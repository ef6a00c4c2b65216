"""The documents of finished parts that a corpus keeps, put in place in a format."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayner.counted import counted
from rayner.data.readers.detect import LOSSES
from rayner.data.schema import Document, documents_from_table
from rayner.data.writers import WRITERS
from rayner.files.whole import whole_file, write_json_lines
from rayner.runtime.corpora.part_folders import Output, here, put_whole
from rayner.runtime.progress import track

if TYPE_CHECKING:
    # Not at run time: it brings torch into each process that reads a corpus.
    from rayner.tasks.base import ParallelMap

NUMBERED = re.compile(r"documents-\d{5,}\.\w+")
_ROWS = 256
_COUNTS = "written.json"
_BESIDE = (_COUNTS, LOSSES)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """The Parquet file of documents in a part's folder, and which of them are kept: bool [N]."""

    source: Path
    kept: np.ndarray

    def __str__(self) -> str:
        return str(self.source)

    def documents(self) -> Iterator[Document]:
        """Those that are kept."""
        first = 0
        with here(self.source) as path:
            for batch in pq.ParquetFile(path).iter_batches(_ROWS):
                kept = self.kept[first : first + len(batch)]
                yield from documents_from_table(batch.filter(pa.array(kept)))
                first += len(batch)

    def written(self, to: str) -> Path:
        """The folder in which they lie in the format, once they are written."""
        digest = hashlib.sha256(np.packbits(self.kept).tobytes()).hexdigest()[:16]
        folder = self.source.parent
        return folder.with_name(f"{folder.name}.{to}-{digest}")


def take_as_parquet(taken: Sequence[Taken], output: Output, mapper: ParallelMap) -> Counter[str]:
    """Bring the documents into the output, a file for each part: its own, where all of it is kept.

    Returns:
        mentions by type, of the other parts.
    """
    types = Counter[str]()
    _write_missing("parquet", [part for part in taken if not part.kept.all()], output, mapper)
    _remove_stale(output)
    for number, part in enumerate(taken):
        folder = part.source.parent
        if not part.kept.all():
            folder = part.written("parquet")
            types.update(_counts(output, folder.name)["types"])
        output.place(folder.name, part.source.name, f"documents-{number:05d}.parquet")
    return types


def take_as(
    to: str, taken: Sequence[Taken], output: Output, mapper: ParallelMap
) -> tuple[int, Counter[str], Counter[str]]:
    """Write the documents in another format, in parts that a later call does not write again.

    Returns:
        documents, mentions by type, and what was lost by what it is; `losses.jsonl` has that by document.
    """
    _write_missing(to, taken, output, mapper)
    _remove_stale(output)
    documents, number = 0, 0
    types, lost = Counter[str](), Counter[str]()
    with whole_file(output.folder / LOSSES) as path, path.open("wb") as losses:
        for folder in (part.written(to).name for part in taken):
            counts = _counts(output, folder)
            documents += counts["documents"]
            types.update(counts["types"])
            lost.update(counts["lost"])
            with (output.known / folder / LOSSES).open("rb") as file:
                shutil.copyfileobj(file, losses)
            for name in output.files(folder):
                if name in _BESIDE:
                    continue
                target = name
                if not WRITERS[to].named_by_document:
                    target = f"documents-{number:05d}{Path(name).suffix}"
                    number += 1
                output.place(folder, name, target)
    return documents, Counter(dict(types.most_common())), lost


def _write_missing(to: str, taken: Sequence[Taken], output: Output, mapper: ParallelMap) -> None:
    """Write the documents of those parts that are not written yet."""
    there = output.finished_parts()
    missing = [part for part in taken if part.written(to).name not in there]
    if len(missing) < len(taken):
        log.info("%s: going on after %d of %s", to, len(taken) - len(missing), counted(len(taken), "part"))
    for _ in track(mapper(partial(_write, to), missing), len(missing), f"write {to}"):
        pass
    output.fetch([part.written(to).name for part in taken], _BESIDE.__contains__)


def _counts(output: Output, folder: str) -> dict[str, Any]:
    return json.loads((output.known / folder / _COUNTS).read_text("utf-8"))


def _write(to: str, part: Taken) -> None:
    put_whole(part.written(to), partial(_write_into, to, part))


def _write_into(to: str, part: Taken, folder: Path) -> None:
    writer = WRITERS[to]
    written = writer.write(
        part.documents(), folder / f"documents{writer.suffix}" if writer.suffix else folder
    )
    counts = {"documents": written.documents, "types": written.types, "lost": written.dropped}
    (folder / _COUNTS).write_text(json.dumps(counts, ensure_ascii=False), "utf-8")
    write_json_lines(folder / LOSSES, (loss.to_row() for loss in written.losses))


def _remove_stale(output: Output) -> None:
    """Remove what an earlier conversion put in place, and no file of anyone else."""
    names = output.names()
    # Files named by their documents may be anybody's where no earlier conversion wrote such.
    by_document = output.earlier is None or WRITERS[output.earlier].named_by_document
    notes = [name for name in names if by_document and name.endswith(".ann")]
    texts = [f"{Path(name).stem}.txt" for name in notes]
    output.remove([LOSSES, *notes, *texts, *filter(NUMBERED.fullmatch, names)])


def files_of_documents(names: Iterable[str], to: str) -> int:
    """How many of the files hold documents in the format."""
    if WRITERS[to].named_by_document:
        return sum(name.endswith(".ann") for name in names)
    return sum(NUMBERED.fullmatch(name) is not None for name in names)
