"""Building example sets: resumable, reused by key, the same whatever the number of workers."""

from __future__ import annotations

import hashlib
import itertools
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import rayner
from rayner.counted import counted
from rayner.data.example_sets import MANIFEST, REJECTS, ExampleSet
from rayner.data.example_shards import cut_shards, files_of_shard, finish, is_written, key_of, write_shard
from rayner.data.warned_once import warn_once
from rayner.errors import CorpusError
from rayner.files.fetching import is_there, local, local_root
from rayner.files.folders import place_folder
from rayner.files.locks import locked
from rayner.files.publishing import Publication
from rayner.files.uris import uri_of, written_to
from rayner.files.whole import write_bytes
from rayner.runtime.parallel import parallel_map
from rayner.runtime.progress import track
from rayner.tasks.base import Unit
from rayner.tasks.encoder_task import EncoderTask
from rayner.tasks.splits import Split

CACHE_VARIABLE = "RAYNER_CACHE"
SCANS = "scans"
"""The folder in the cache for what was seen of files."""
SECONDS_FOR_ANOTHER = 6 * 3600
"""How long to wait for another process that builds the same set."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Part:
    """A unit and the shards that are made of it: the number of the first, and how many items each takes."""

    unit: Unit
    first: int
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return str(self.unit.source)


def build_examples(task: EncoderTask[Any], cache: Path, workers: int = 0) -> ExampleSet:
    """The example set that is learned from, out of `cache` or built into it.

    An item that the task refuses with an InputError is left out. It is counted and named in `rejects.jsonl`,
    and so is each line that an example has in its column `rejects`.
    What a killed build has written is kept and built upon.

    Args:
        cache: a folder, or its URI: there each set is put in place whole by whoever builds it first.
        workers: 0 works in this process, any other number on all CPUs of the Ray cluster.

    Raises:
        CorpusError: the task refuses every item.
        FileError: a file cannot be read; nothing is left out for it.
        InputError, StorageError: the storage of a URI cannot be used.
    """
    uri = uri_of(cache)
    units = find_units(task, "train", cache, workers)
    cache = cache_here(cache)
    settings = {
        "task": f"{type(task).__module__}.{type(task).__qualname__}",
        "rayner": rayner.__version__,
        "version": task.examples_version,
        "settings": task.example_settings(),
    }
    key = key_of(settings, [unit.digest for unit in units])
    # Absolute, because Ray's workers have another working directory.
    folder = cache.absolute() / key
    # Trials of a sweep start at once and want the same set: one builds it, the others wait and read it.
    with locked(folder.with_name(f".{key}.lock"), "builds the training examples", SECONDS_FOR_ANOTHER):
        if uri is not None:
            made = folder
            folder = _at(f"{uri}/{key}", made, lambda: _build(task, units, made, key, workers, shared=False))
        elif not (folder / MANIFEST).exists():
            _build(task, units, folder, key, workers)
    found = ExampleSet(folder)
    if rejected := found.manifest["rejected"]:
        rejects = folder / REJECTS
        left_out = counted(rejected, "item or mention", "items or mentions")
        warn_once(log, f"train: {left_out} left out or changed, see {rejects}")
    return found


def find_units(task: EncoderTask[Any], split: Split, cache: Path, workers: int = 0) -> Sequence[Unit]:
    """The units of a split. What was seen of files is kept in `cache`, and looked at again if they change.

    Args:
        workers: as of `build_examples`.
    """

    def mapper(work: Callable[[Any], Any], parts: Sequence[Any]) -> Iterator[Any]:
        return track(parallel_map(work, parts, None if workers else 0), len(parts), f"{split} files")

    scans = cache_here(cache).absolute() / SCANS / rayner.__version__
    if split == "calibration":
        found = task.calibration_units(mapper, scans)
    else:
        found = task.units(split, mapper, scans)
    # Arrow keeps what it has freed of all scans, several times what the units take.
    pa.default_memory_pool().release_unused()
    return found


def cache_folder(default: Path) -> Path:
    """The folder of example sets that RAYNER_CACHE names, or its URI.

    Raises:
        InputError: a URI at which nothing can be written.
    """
    return Path(written_to(CACHE_VARIABLE) or default)


def cache_here(cache: Path) -> Path:
    """The cache itself; for one at a URI, the folder of this machine in which sets are made for it."""
    uri = uri_of(cache)
    if uri is None:
        return cache
    return local_root() / "examples" / hashlib.sha256(uri.encode()).hexdigest()[:16]


def _at(uri: str, made: Path, build: Callable[[], None]) -> Path:
    """The set at a URI as it lies on this machine; made and put in place if there is none yet."""
    if not is_there(f"{uri}/{MANIFEST}"):
        if not (made / MANIFEST).exists():
            build()
        Publication(uri).put_first(made)
    found = local(uri)
    shutil.rmtree(made, ignore_errors=True)
    return found


def read_all(task: EncoderTask[Any], units: Sequence[Unit]) -> list[Any]:
    """The items of all units, in memory."""
    return list(read_each(task, units))


def read_each(task: EncoderTask[Any], units: Sequence[Unit]) -> Iterator[Any]:
    """The items of all units, each read when it is asked for."""
    return (item for unit in units for item in task.read(unit))


def _build(
    task: EncoderTask[Any],
    units: Sequence[Unit],
    folder: Path,
    key: str,
    workers: int,
    shared: bool = True,
) -> None:
    """Build a set in a folder, which other nodes see if it is `shared`."""
    partial_folder = folder.with_name(f"{folder.name}.partial")
    partial_folder.mkdir(parents=True, exist_ok=True)
    if (partial_folder / MANIFEST).exists():
        # Killed when all was there but its name.
        place_folder(partial_folder, folder)
        return
    parts: list[_Part] = []
    shards: list[int] = []
    for unit in units:
        sizes = cut_shards(unit.sizes)
        parts.append(_Part(unit, len(shards), sizes))
        shards += sizes
    missing = [part for part in parts if not all(is_written(partial_folder, i) for i in _numbers(part))]
    items = sum(sum(part.sizes) for part in missing)
    log.info("making the training examples of %s", counted(items, "item"))
    done: Iterator[object]
    total = len(missing)
    if workers and shared:
        build = partial(_build_part, task, folder=partial_folder)
        done = parallel_map(build, missing, asks_model=task.examples_ask_model)
    elif workers and total > 1:
        sent = parallel_map(partial(_sent_part, task), missing, asks_model=task.examples_ask_model)
        done = (_keep(partial_folder, files) for files in sent)
    else:
        # A corpus is often one file.
        done = itertools.chain.from_iterable(_build_shards(task, partial_folder, part) for part in missing)
        total = sum(len(part.sizes) for part in missing)
    for _ in track(done, total, "training examples"):
        pass
    finish(partial_folder, key, shards)
    if shards and not len(ExampleSet(partial_folder)):
        first = (partial_folder / REJECTS).read_bytes().split(b"\n")[0].decode()
        shutil.rmtree(partial_folder)
        what = "no example can be made of any item"
        raise CorpusError("train", what + (f"; the first: {first}" if first else ""))
    place_folder(partial_folder, folder)


def _numbers(part: _Part) -> range:
    return range(part.first, part.first + len(part.sizes))


def _build_part(task: EncoderTask[Any], part: _Part, folder: Path) -> None:
    for _ in _build_shards(task, folder, part):
        pass


def _sent_part(task: EncoderTask[Any], part: _Part) -> Mapping[str, bytes]:
    """The files of a part, made on a machine that does not see the folder of the set: by name, in an order in
    which they may be written."""
    local_root().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="examples-", dir=local_root()) as made:
        folder = Path(made)
        _build_part(task, part, folder)
        paths = [path for shard in _numbers(part) for path in files_of_shard(folder, shard)]
        return {path.name: path.read_bytes() for path in paths}


def _keep(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        write_bytes(folder / name, content)


def _build_shards(task: EncoderTask[Any], folder: Path, part: _Part) -> Iterator[int]:
    """Write the shards of a part that are missing; yields the number of each when it is there."""
    items = iter(task.read(part.unit))
    for shard, size in zip(_numbers(part), part.sizes, strict=True):
        taken = list(itertools.islice(items, size))
        if not is_written(folder, shard):
            _build_shard(task, folder, shard, taken)
        yield shard


def _build_shard(task: EncoderTask[Any], folder: Path, shard: int, items: Sequence[Any]) -> None:
    rejects: list[dict[str, str]] = []
    try:
        examples = list(task.examples(items))
    except CorpusError:
        examples = list(_one_by_one(task, items, rejects))
    lines = [line for example in examples for line in example.pop("rejects", ())]
    examples = [example for example in examples if example]
    lengths = [example.pop("length") for example in examples]
    groups = [example.pop("group", None) for example in examples]
    for line in lines:
        where, _, what = line.rpartition(": ")
        rejects.append({"where": where, "what": what, "hint": ""})
    write_shard(folder, shard, examples, lengths, groups, rejects)


def _one_by_one(task: EncoderTask[Any], items: Sequence[Any], rejects: list[dict[str, str]]) -> Iterator[Any]:
    for item in items:
        try:
            examples = list(task.examples([item]))
        except CorpusError as error:
            # Only what is wrong with an item: an encoder that this node lacks is none of its faults.
            rejects.append({"where": error.where, "what": error.what, "hint": error.hint})
        else:
            yield from examples
