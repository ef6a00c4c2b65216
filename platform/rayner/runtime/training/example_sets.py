"""Building example sets: resumable, reused by key, the same whatever the number of workers."""

from __future__ import annotations

import itertools
import logging
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rayner.data.example_sets import ExampleSet
from rayner.data.example_shards import Fingerprint, fingerprint, finish, is_written, key_of, write_shard
from rayner.errors import CorpusError, InputError
from rayner.runtime.locks import locked
from rayner.runtime.pipeline import code_digest, each
from rayner.runtime.progress import track
from rayner.tasks.encoder_task import EncoderTask

SECONDS_FOR_ANOTHER = 6 * 3600
"""How long to wait for another process that builds the same set."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Part:
    """The items of one shard."""

    shard: int
    items: Sequence[Any]


def build_examples(
    task: EncoderTask[Any], split: Literal["train", "dev"], cache: Path, workers: int = 0
) -> ExampleSet:
    """The example set of a split, from `cache` or built into it.

    An item that the task refuses with an InputError is left out. It is counted and named in `rejects.jsonl`,
    and so is each line that an example has in its column `rejects`.
    What a killed build has written is kept and built upon.

    Args:
        workers: Ray Data tasks at once; 0 works in this process.

    Raises:
        CorpusError: the task refuses every item.
    """
    items = fingerprint(task.items(split))
    kind = f"{type(task).__module__}.{type(task).__qualname__}"
    settings = {"task": kind, "code": code_digest("data", "tasks"), "settings": task.example_settings()}
    key = key_of(settings, items)
    # Absolute, because Ray's workers have another working directory.
    folder = cache.absolute() / key
    cache.mkdir(parents=True, exist_ok=True)
    # Trials of a sweep start at once and want the same set: one builds it, the others wait and read it.
    with locked(folder.with_name(f".{key}.lock"), f"builds the {split} examples", SECONDS_FOR_ANOTHER):
        if not (folder / "manifest.json").exists():
            _build(task, split, items, folder, key, workers)
    found = ExampleSet(folder)
    if rejected := found.manifest["rejected"]:
        what = "%s: %d items or mentions left out or changed, see %s"
        log.warning(what, split, rejected, folder / "rejects.jsonl")
    return found


def _build(
    task: EncoderTask[Any],
    split: Literal["train", "dev"],
    items: Fingerprint,
    folder: Path,
    key: str,
    workers: int,
) -> None:
    partial_folder = folder.with_name(f"{folder.name}.partial")
    partial_folder.mkdir(parents=True, exist_ok=True)
    missing = {i for i in range(len(items.shards)) if not is_written(partial_folder, i)}
    work = partial(_build_shard, task, partial_folder)
    parts = _parts(task, split, items.shards, missing)
    for _ in track(each(work, parts, workers), len(missing), f"{split} examples"):
        pass
    finish(partial_folder, key, items.shards)
    rejected = (partial_folder / "rejects.jsonl").read_bytes()
    if rejected and not len(ExampleSet(partial_folder)):
        first = rejected.split(b"\n")[0].decode()
        shutil.rmtree(partial_folder)
        raise CorpusError(split, f"no example can be made of any item; the first: {first}")
    partial_folder.rename(folder)


def _parts(
    task: EncoderTask[Any], split: Literal["train", "dev"], sizes: Sequence[int], missing: set[int]
) -> Iterator[_Part]:
    if not missing:
        return
    items = iter(task.items(split))
    for shard, size in enumerate(sizes):
        chunk = list(itertools.islice(items, size))
        if shard in missing:
            yield _Part(shard, chunk)


def _build_shard(task: EncoderTask[Any], folder: Path, part: _Part) -> None:
    rejects: list[dict[str, str]] = []
    try:
        examples = list(task.examples(part.items))
    except InputError:
        examples = list(_one_by_one(task, part.items, rejects))
    lengths = [example.pop("length") for example in examples]
    groups = [example.pop("group", None) for example in examples]
    for example in examples:
        for line in example.pop("rejects", ()):
            where, _, what = line.rpartition(": ")
            rejects.append({"where": where, "what": what, "cure": ""})
    write_shard(folder, part.shard, examples, lengths, groups, rejects)


def _one_by_one(task: EncoderTask[Any], items: Sequence[Any], rejects: list[dict[str, str]]) -> Iterator[Any]:
    for item in items:
        try:
            examples = list(task.examples([item]))
        except InputError as error:
            rejects.append({"where": error.where, "what": error.what, "cure": error.cure})
        else:
            yield from examples
