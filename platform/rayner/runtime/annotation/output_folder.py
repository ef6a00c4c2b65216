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

import io
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from rayner.data.schema import MENTION_TYPE, SENTENCE_TYPE
from rayner.errors import InputError
from rayner.files.locks import LOCK, locked
from rayner.files.places import Place
from rayner.files.publishing import Publication
from rayner.files.stores import SCHEMES
from rayner.runtime.annotation.input_shards import (
    Addition,
    Source,
    addition,
    additions_to_table,
    digest_of,
    grown,
    shards_of,
)

SUMMARY = "_annotation.json"
REJECTS = "_rejects.jsonl"
INPUTS = "_inputs.arrow"
WORK = ".work"
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
"""The column of what each sentence was read with, where that is wanted."""
_OURS = re.compile(
    r"documents-\d{5,}-\d{5,}\.parquet|_jsonl|_brat|_rejects\.jsonl|_inputs\.arrow|_annotation\.json|\.work"
)
_DOCUMENTS = re.compile(r"documents-((\d{5,})-(\d{5,}))\.parquet")
_BLOCK = re.compile(r"(\d+)-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class Output:
    """The folder of an annotation."""

    place: Place

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
            if found := _BLOCK.fullmatch(info.base_name):
                done.setdefault(int(found[1]), set()).add(int(found[2]))
        return done

    def shards(self) -> dict[int, dict[str, Any]]:
        """What is known of the shards that were read to their ends."""
        indices = [int(info.base_name[:-5]) for info in self.place.below(f"{WORK}/shards").files()]
        return dict(zip(indices, at_once(lambda i: self.read_json(self.shard(i)), indices), strict=True))

    def document_files(self) -> frozenset[str]:
        """The names of those blocks of which documents lie in the output."""
        found = (_DOCUMENTS.fullmatch(info.base_name) for info in self.place.files())
        return frozenset(name[1] for name in found if name)

    def blocks_before(self, shards: int) -> list[str]:
        """The names of those among them that belong to the first shards, in order."""
        found = [tuple(map(int, name.split("-"))) for name in self.document_files()]
        return [block_name(shard, number) for shard, number in sorted(found) if shard < shards]

    def before(self) -> dict[str, Any]:
        """What is known of the annotation that this one goes on with after files were added to its input.

        Its summary, `shards` and `bytes_of_rejects`; empty where this is a first one.
        """
        return self.read_json(self.place.below(f"{WORK}/before.json"))

    def blocks(self) -> list[str]:
        """The names of the blocks that are done, in order."""
        blocks = [(shard, number) for shard, done in self.finished_blocks().items() for number in done]
        return [block_name(shard, number) for shard, number in sorted(blocks)]

    def sidecars(self, blocks: Iterable[str]) -> Iterator[dict[str, Any]]:
        """What is known of each block."""
        return at_once(lambda name: self.read_json(self.sidecar(name)), blocks)

    def summary(self) -> dict[str, Any]:
        """The counts of a finished annotation; nothing where none is finished."""
        return self.read_json(self.place.below(SUMMARY))

    def begin(
        self, settings: Mapping[str, str], sources: Sequence[Source], fresh: bool
    ) -> list[Addition] | None:
        """Make ready to work in the folder.

        An annotation of the same settings whose files are all here, unchanged, is gone on with, whatever else
        is among the sources.

        Args:
            settings: what decides the result beside the input, by name, each as a hash or a short text.
            fresh: remove what is there of another annotation.

        Returns:
            The input, in the additions in which it came; None where all is done already.

        Raises:
            InputError: the folder holds something else, or an annotation with other settings.
        """
        entries = {name.split("/")[0] for name in self._names()}
        wanted = {"input": digest_of(sources), **settings}
        summary = self.summary()
        of_work = self.read_json(self.place.below(f"{WORK}/settings.json"))
        earlier = of_work or summary.get("settings", {})
        if any(name.startswith("documents-") for name in entries) and not earlier:
            what = "holds documents that are not from here"
            raise InputError(f"--out {self.place.shown}", what, "name another folder")
        is_done = SUMMARY in entries and summary.get("settings") == earlier
        is_empty = SUMMARY not in entries and not self.finished_blocks()
        additions = None
        if fresh or (is_empty and earlier != wanted):
            for name in entries:
                if _OURS.fullmatch(name):
                    self.place.below(name).delete()
        else:
            known = self._additions(self.place.below(f"{WORK}/inputs.arrow" if of_work else INPUTS))
            additions = None if known is None else grown(known, sources)
            self._check_settings(earlier, wanted, additions is not None)
            is_same = additions is None or sum(len(a.sources) for a in additions) == len(known or ())
            if is_done and is_same:
                # One that was interrupted at its very end has left it.
                self.place.below(WORK).delete()
                return None
            if is_done and additions:
                self._keep_as_before(summary, additions[:-1])
        additions = additions or [addition(sources)]
        try:
            self.place.drop_partials()
            for name in ("_jsonl", "_brat", WORK):
                self.place.below(name).drop_partials(recursive=True)
            self._write_additions(self.place.below(f"{WORK}/inputs.arrow"), additions)
            # Last: with them, all else is there.
            self.write_json(self.place.below(f"{WORK}/settings.json"), wanted)
        except OSError as error:
            raise self._unusable(error) from None
        return additions

    def end(self, result: Mapping[str, Any]) -> None:
        """Say that all is done, with the counts."""
        work = self.place.below(WORK)
        self.place.below(INPUTS).write(work.below("inputs.arrow").read() or b"")
        settings = self.read_json(work.below("settings.json"))
        self.write_json(self.place.below(SUMMARY), {**result, "settings": settings})
        work.delete()

    def _check_settings(self, earlier: Mapping[str, str], wanted: Mapping[str, str], has_grown: bool) -> None:
        changed = {key for key in {**earlier, **wanted} if earlier.get(key) != wanted.get(key)}
        if changed - ({"input"} if has_grown else set()):
            what = f"holds an annotation with another {', another '.join(sorted(changed))}"
            hint = "name another folder, or start over with --fresh"
            if changed == {"input"}:
                hint += "; where a corpus grows, keep the files that were read, with what is new in others"
            raise InputError(f"--out {self.place.shown}", what, hint)

    def _keep_as_before(self, summary: Mapping[str, Any], additions: Iterable[Addition]) -> None:
        self.place.below(WORK).delete()
        rejects = self.place.below(REJECTS).info().size or 0
        before = {**summary, "shards": len(shards_of(additions)), "bytes_of_rejects": rejects}
        self.write_json(self.place.below(f"{WORK}/before.json"), before)

    def _additions(self, place: Place) -> pa.Table | None:
        """The files that were read, or are to be; None where an older version did not write them down."""
        data = place.read()
        return pa.ipc.open_file(data).read_all() if data else None

    def _write_additions(self, place: Place, additions: Iterable[Addition]) -> None:
        sink = io.BytesIO()
        table = additions_to_table(additions)
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        place.write(sink.getvalue())

    @contextmanager
    def locked(self) -> Iterator[Callable[[], None]]:
        """Keep other runs out of the folder; yields what tells whether this one may still write there.

        In a folder, the system keeps them out until this process dies. At a URI, a later run takes over.

        Raises:
            InputError: one is at work there.
        """
        if self.place.is_local:
            with locked(Path(self.place.path, LOCK), "annotates into this folder"):
                yield lambda: None
        elif self.place.shown.partition(":")[0] in SCHEMES:
            writer = Publication(f"{self.place.shown.rstrip('/')}/{WRITER}")
            writer.open()
            yield writer.check
        else:
            yield lambda: None

    def write_json(self, place: Place, value: Mapping[str, Any]) -> None:
        """Write a JSON object whole or not at all."""
        place.write(_dumps(value))

    def _unusable(self, error: OSError) -> InputError:
        what = f"cannot be written to ({error.strerror or error})"
        return InputError(f"--out {self.place.shown}", what, "name a folder that can be")

    def _names(self) -> list[str]:
        selector = fs.FileSelector(self.place.path, allow_not_found=True)
        return [info.base_name for info in self.place.filesystem.get_file_info(selector)]

    def read_json(self, place: Place) -> dict[str, Any]:
        """The JSON object of a file; empty where there is none."""
        data = place.read()
        try:
            return {} if data is None else json.loads(data)
        except ValueError:
            return {}


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
