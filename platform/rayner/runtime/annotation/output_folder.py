"""The folder that `annotate` writes: what lies where, and what is done already.

`documents-SHARD-BLOCK.parquet` holds the answers to a block. Where they are wanted, `_jsonl/` has a file of
the same name with the texts, and `_brat/SHARD-BLOCK/` brat files. While the work goes on, `.work` holds a
JSON file for each block that is done (`blocks/`), written last, and for each shard that was read to its end
(`shards/`). `_inputs.arrow` has the files that were read, so that an input to which some were added is told
from one that changed. Then `.work/before.json` holds the counts of the annotation that is gone on with. At a
URI, `_writer/` says which process writes. Names with an underscore or a dot in front are passed over where
the folder is read as one Parquet data set.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.schema import MENTION_TYPE, SENTENCE_TYPE
from rayner.errors import RaynerError
from rayner.files.locks import LOCK, locked
from rayner.files.manifests import MANIFEST, decode
from rayner.files.places import Place
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.stores import SCHEMES

SUMMARY = "_annotation.json"
REJECTS = "_rejects.jsonl"
INPUTS = "_inputs.arrow"
WORK = ".work"
SETTINGS, FILES, BEFORE = f"{WORK}/settings.json", f"{WORK}/inputs.arrow", f"{WORK}/before.json"
PRECISION, DUPLICATES = f"{WORK}/precision.json", f"{WORK}/duplicates.json"
WRITER = "_writer"

ANNOTATION_SCHEMA = pa.schema(
    [
        pa.field("document_id", pa.string(), nullable=False),
        ("mentions", pa.list_(MENTION_TYPE)),
        ("windows", pa.int32()),
        ("model_version", pa.string()),
        ("source", pa.string()),
    ]
)
SENTENCES = pa.field("sentences", pa.list_(SENTENCE_TYPE))
"""The column of the contexts chosen for each sentence, where that is wanted."""
_DOCUMENTS = re.compile(r"documents-((\d{5,})-(\d{5,}))\.parquet")
_BLOCK = re.compile(r"(\d+)-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class Output:
    """The folder of an annotation; at a URI `writer` is what tells the run that may write there."""

    place: Place
    writer: str = ""

    def documents(self, block: str) -> Place:
        """The Parquet file of a block's documents."""
        return self.place.below(f"documents-{block}.parquet")

    def jsonl(self, block: str) -> Place:
        """The JSON lines of a block's documents."""
        return self.place.below(f"_jsonl/documents-{block}.jsonl")

    def brat(self, block: str) -> Place:
        """The folder of a block's brat files."""
        return self.place.below(f"_brat/{block}")

    def sidecar(self, block: str) -> Place:
        """What is known of a finished block."""
        return self.place.below(f"{WORK}/blocks/{block}.json")

    def attempts(self, block: str) -> Place:
        """What is known of a block that was begun."""
        return self.place.below(f"{WORK}/attempts/{block}.json")

    def shard(self, index: int) -> Place:
        """What is known of a shard that was read to its end."""
        return self.place.below(f"{WORK}/shards/{index:05d}.json")

    def finished_blocks(self) -> dict[int, set[int]]:
        """The numbers of the blocks that are done, by shard."""
        done: dict[int, set[int]] = {}
        for info in self.place.below(f"{WORK}/blocks").files():
            # A power cut leaves empty files.
            if info.size and (found := _BLOCK.fullmatch(info.base_name)):
                done.setdefault(int(found[1]), set()).add(int(found[2]))
        return done

    def shards(self) -> dict[int, dict[str, Any]]:
        """What is known of the shards that were read to their ends."""
        indices = [int(info.base_name[:-5]) for info in self.place.below(f"{WORK}/shards").files()]
        notes = zip(indices, at_once(lambda i: self.read_json(self.shard(i)), indices), strict=True)
        return {index: known for index, known in notes if "blocks" in known}

    def document_files(self) -> dict[str, int]:
        """The names of those blocks of which documents lie in the output, with the bytes of the files."""
        found = ((_DOCUMENTS.fullmatch(info.base_name), info.size or 0) for info in self.place.files())
        return {name[1]: size for name, size in found if name}

    def rows_of(self, blocks: Iterable[str]) -> Iterator[int]:
        """How many documents lie in the files of those blocks that have one.

        Raises:
            RaynerError: a file that is damaged.
        """
        present = self.document_files()

        def rows(file: Place) -> int:
            with whole(file):
                return pq.read_metadata(file.path, filesystem=file.filesystem).num_rows

        return at_once(rows, [self.documents(name) for name in blocks if name in present])

    def blocks_before(self, shards: int) -> list[str]:
        """The names of those among them that belong to the first shards, in order."""
        found = [tuple(map(int, name.split("-"))) for name in self.document_files()]
        return [block_name(shard, number) for shard, number in sorted(found) if shard < shards]

    def before(self) -> dict[str, Any]:
        """What is known of the annotation that this one goes on with after files were added to its input.

        Its summary, `shards` and `bytes_of_rejects`; empty where this is a first one.
        """
        return self.read_json(self.place.below(BEFORE))

    def blocks(self) -> list[str]:
        """The names of the blocks that are done, in order."""
        blocks = [(shard, number) for shard, done in self.finished_blocks().items() for number in done]
        return [block_name(shard, number) for shard, number in sorted(blocks)]

    def sidecars(self, blocks: Iterable[str]) -> Iterator[dict[str, Any]]:
        """What is known of each block.

        Raises:
            RaynerError: a note that is damaged.
        """

        def known(name: str) -> dict[str, Any]:
            if "documents" not in (found := self.read_json(self.sidecar(name))):
                raise damaged(self.sidecar(name))
            return found

        return at_once(known, blocks)

    def summary(self) -> dict[str, Any]:
        """The counts of a finished annotation, its `settings`, and `parts`: how many files of documents it
        has (`files`), and their `bytes`. Nothing where none is finished."""
        return self.read_json(self.place.below(SUMMARY))

    def parts(self) -> dict[str, int]:
        """What `parts` of the summary is, of the files that are there."""
        sizes = self.document_files().values()
        return {"files": len(sizes), "bytes": sum(sizes)}

    def end(self, result: Mapping[str, Any]) -> None:
        """Say that all is done, with the counts."""
        self.place.below(INPUTS).write(self.place.below(FILES).read() or b"")
        settings = self.read_json(self.place.below(SETTINGS))
        self.write_json(self.place.below(SUMMARY), {**result, "parts": self.parts(), "settings": settings})
        self.place.below(WORK).delete()

    @contextmanager
    def locked(self) -> Iterator[Output]:
        """Keep other runs out of the folder; yields the folder of the run that may write there.

        In a folder, the system keeps them out until this process dies. At a URI, a later run takes over.

        Raises:
            InputError: one is at work there.
        """
        if self.place.is_local:
            with locked(Path(self.place.path, LOCK), "annotates into this folder"):
                yield self
        elif self.place.shown.partition(":")[0] in SCHEMES:
            writer = Publication(f"{self.place.shown.rstrip('/')}/{WRITER}")
            writer.open()
            yield replace(self, writer=writer.written)
        else:
            yield self

    def check(self) -> None:
        """Find out whether this run may still write.

        Raises:
            TakenOverError: another one took the place over.
        """
        if not self.writer:
            return
        file = self.place.below(f"{WRITER}/{MANIFEST}")
        data = file.read()
        state = None if data is None else decode(data, file.shown)
        if state is None or state.write != self.writer:
            who = f" ({state.who})" if state is not None else ""
            what = f"is written by another process{who}"
            raise TakenOverError(self.place.shown, what, "stop one of the two; this one stops")

    def write_json(self, place: Place, value: Mapping[str, Any]) -> None:
        """Write a JSON object whole or not at all."""
        place.write(_dumps(value))

    def read_json(self, place: Place) -> dict[str, Any]:
        """The JSON object of a file; empty where there is none, or something else."""
        data = place.read()
        try:
            value = {} if data is None else json.loads(data)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def damaged(file: Place) -> RaynerError:
    """The error of a file that is not as it was written."""
    return RaynerError(f"{file.shown}: is damaged, as after a power cut; start over with --fresh")


@contextmanager
def whole(file: Place) -> Iterator[None]:
    """Within it, that a Parquet file is no such is told of the file."""
    try:
        yield
    except pa.ArrowException:
        raise damaged(file) from None


Given = TypeVar("Given")
Result = TypeVar("Result")
_THREADS = 32
"""Small files of an object store take tens of milliseconds each, whatever their size."""


def at_once(read: Callable[[Given], Result], given: Iterable[Given]) -> Iterator[Result]:
    """The results in order, several at a time, a bounded number ahead."""
    rest = iter(given)
    with ThreadPoolExecutor(_THREADS) as pool:
        ahead = deque(pool.submit(read, one) for one in islice(rest, 2 * _THREADS))
        while ahead:
            result = ahead.popleft().result()
            ahead.extend(pool.submit(read, one) for one in islice(rest, 1))
            yield result


def block_name(shard: int, number: int) -> str:
    """The name of a block in the names of its files."""
    return f"{shard:05d}-{number:05d}"


def _dumps(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()
