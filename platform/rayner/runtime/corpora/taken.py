"""The documents of finished parts that a corpus keeps, put in place in a format."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.schema import Document, documents_from_table
from rayner.data.writers import WRITERS, write_parquet
from rayner.files.whole import partial_name, whole_file
from rayner.runtime.progress import track

if TYPE_CHECKING:
    # Not at run time: it brings torch into each process that reads a corpus.
    from rayner.tasks.base import ParallelMap

LOSSES = "losses.jsonl"
_ROWS = 256
_BESIDE = ("written.json", LOSSES)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """A Parquet file of documents, and which of them are kept: bool [N]."""

    source: Path
    kept: np.ndarray

    def __str__(self) -> str:
        return str(self.source)

    def documents(self) -> Iterator[Document]:
        """Those that are kept."""
        first = 0
        for batch in pq.ParquetFile(self.source).iter_batches(_ROWS):
            kept = self.kept[first : first + len(batch)]
            yield from documents_from_table(batch.filter(pa.array(kept)))
            first += len(batch)

    def written(self, to: str) -> Path:
        """The folder in which they lie in the format, once they are written."""
        digest = hashlib.sha256(np.packbits(self.kept).tobytes()).hexdigest()[:16]
        return self.source.with_name(f"{self.source.stem}.{to}-{digest}")


def take_as_parquet(taken: Sequence[Taken], out: Path, mapper: ParallelMap) -> None:
    """Bring the documents into `out`, a file for each part."""
    _remove_stale(out)
    cut: list[_Cut] = []
    for number, part in enumerate(taken):
        target = out / f"documents-{number:05d}.parquet"
        if part.kept.all():
            _link(part.source, target)
        else:
            cut.append(_Cut(part, target))
    for _ in track(mapper(_write_parquet, cut), len(cut), "write parquet"):
        pass


@dataclass(frozen=True, slots=True)
class _Cut:
    """A part of which not all is kept, and the file for what is."""

    part: Taken
    target: Path

    def __str__(self) -> str:
        return str(self.part)


def _write_parquet(cut: _Cut) -> None:
    write_parquet(cut.part.documents(), cut.target)


def take_as(
    to: str, taken: Sequence[Taken], out: Path, mapper: ParallelMap
) -> tuple[int, Counter[str], Counter[str]]:
    """Write the documents in another format, in parts that a later call does not write again.

    Returns:
        documents, mentions by type, and what was lost by what it is; `losses.jsonl` has that by document.
    """
    missing = [part for part in taken if not part.written(to).exists()]
    if len(missing) < len(taken):
        log.info("%s: going on after %d of %d parts", to, len(taken) - len(missing), len(taken))
    for _ in track(mapper(partial(_write, to), missing), len(missing), f"write {to}"):
        pass
    _remove_stale(out)
    documents, number = 0, 0
    types, lost = Counter[str](), Counter[str]()
    with whole_file(out / LOSSES) as path, path.open("wb") as losses:
        for folder in (part.written(to) for part in taken):
            counts = json.loads((folder / "written.json").read_text("utf-8"))
            documents += counts["documents"]
            types.update(counts["types"])
            lost.update(counts["lost"])
            with (folder / LOSSES).open("rb") as file:
                shutil.copyfileobj(file, losses)
            for source in sorted(path for path in folder.iterdir() if path.name not in _BESIDE):
                name = source.name
                if not WRITERS[to].named_by_document:
                    name = f"documents-{number:05d}{source.suffix}"
                    number += 1
                _link(source, out / name)
    return documents, Counter(dict(types.most_common())), lost


def _write(to: str, part: Taken) -> None:
    writer, folder = WRITERS[to], part.written(to)
    partial_folder = folder.with_name(partial_name(folder.name))
    partial_folder.mkdir()
    path = partial_folder / f"documents{writer.suffix}" if writer.suffix else partial_folder
    written = writer.write(part.documents(), path)
    counts = {"documents": written.documents, "types": written.types, "lost": written.dropped}
    (partial_folder / "written.json").write_text(json.dumps(counts, ensure_ascii=False), "utf-8")
    with (partial_folder / LOSSES).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(loss.to_row(), ensure_ascii=False) + "\n" for loss in written.losses)
    try:
        partial_folder.rename(folder)
    except OSError:
        # Another try of the same part may have been faster.
        shutil.rmtree(partial_folder, ignore_errors=True)
        if not folder.exists():
            raise


def _remove_stale(out: Path) -> None:
    """Remove what an earlier conversion put in place, in whatever format."""
    pairs = [path for notes in out.glob("*.ann") for path in (notes, notes.with_suffix(".txt"))]
    _remove([*out.glob("documents-*"), *pairs, out / LOSSES])


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Not every file system has links.
        with whole_file(target) as path:
            shutil.copyfile(source, path)
