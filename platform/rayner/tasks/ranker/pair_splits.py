"""Reading and splitting pairs of a sentence and a context, and the answer to one."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rayner.config import PairSettings
from rayner.config.recipe_files import corpus_paths
from rayner.counted import counted
from rayner.data.example_shards import canonical
from rayner.data.readers import FileUnit, Reject
from rayner.data.scans import cuts_of, is_large, with_cuts
from rayner.data.schema import Document
from rayner.data.split import KEY_SCHEMA, are_of, parts_by, split_keys
from rayner.data.warned_once import warn_once
from rayner.errors import CorpusError, FileError
from rayner.supervision.context_rows import ContextRow, ContextRows, read_context_rows
from rayner.tasks.base import ParallelMap, Unit
from rayner.tasks.numbered_parts import in_order_of_parts

log = logging.getLogger(__name__)


class Relevance(NamedTuple):
    """The answer to a pair: a score from 0 to 1, whether it counts as relevant, and the sub-words of the pair
    that were not read."""

    score: float
    relevant: bool
    cut: int = 0


class _Scan(NamedTuple):
    """What is known of the pairs of some lines after reading them once, a few bytes each.

    Attributes:
        places: float64 [N], by which they are split: those that go together have the same.
        relevant: bool [N].
        contents: uint8 [N, 16], a hash of each; `sizes`, int32 [N], its characters as JSON.
        rejects: lines that are none; `first` is the first of them.
    """

    places: np.ndarray
    relevant: np.ndarray
    contents: np.ndarray
    sizes: np.ndarray
    rejects: int
    first: Reject | None


class _Chosen(NamedTuple):
    """Those pairs of some lines that are in a split: [N] bool."""

    lines: FileUnit
    rows: np.ndarray


def pair_units(
    pairs: PairSettings, part: Literal["train", "dev"], mapper: ParallelMap = map
) -> Sequence[Unit]:
    """The pairs of a split as units: lines of files, large ones in parts. None of dev where there is none.

    Args:
        mapper: how the files are read, which is done once to see what is in them.

    Raises:
        RecipeError: a path that does not exist.
        FileError: a file that cannot be read.
        CorpusError: a file without pairs, a split that would be empty, or training pairs that are all
            relevant, or none of them.
    """
    if part == "dev" and not pairs.dev and not pairs.dev_fraction:
        return []
    key = "pairs.dev" if part == "dev" and pairs.dev else "pairs.train"
    # Absolute, because the workers of a cluster have another working directory.
    paths = [path.absolute() for path in corpus_paths(pairs.dev if key == "pairs.dev" else pairs.train, key)]
    files = [FileUnit("jsonl", (str(path),), str(path)) for path in paths]
    large = [one for one in files if is_large(one)]
    cut = dict(zip(large, in_order_of_parts(mapper, cuts_of, large), strict=True))
    lines = [part for one in files for part in (with_cuts(one, cut[one]) if one in cut else [one])]
    scans: list[_Scan] = in_order_of_parts(mapper, _scan, lines)
    places = np.concatenate([found.places for found in scans])
    first = next((found.first for found in scans if found.first), None)
    _check(paths, len(places), sum(found.rejects for found in scans), first)
    rows = np.ones(len(places), bool)
    if pairs.dev_fraction:
        rows = _are_of(part, places, pairs.dev_fraction)
    relevant = np.concatenate([found.relevant for found in scans])[rows]
    if part == "train" and (relevant.all() or not relevant.any()):
        what = f"{'only' if relevant.all() else 'no'} relevant ones among {counted(len(relevant), 'pair')}"
        raise CorpusError("pairs.train", what, "give pairs of both kinds: a ranker learns to tell them apart")
    chosen = np.split(rows, np.cumsum([len(found.sizes) for found in scans])[:-1])
    return [
        # A copy: a slice would be pickled with all that it was cut from.
        Unit(_Chosen(one, taken.copy()), _digest(found.contents[taken]), found.sizes[taken])
        for one, found, taken in zip(lines, scans, chosen, strict=True)
        if taken.any()
    ]


def read_unit(unit: Unit) -> list[ContextRow]:
    """The pairs of one of `pair_units`.

    Raises:
        FileError: a file that cannot be read, or was changed in the meantime.
    """
    source: _Chosen = unit.source
    rows = _rows(source.lines).rows
    taken = [row for row, is_taken in zip(rows, source.rows, strict=False) if is_taken]
    if len(rows) != len(source.rows) or _digest(_contents(taken)[0]) != unit.digest:
        what = "does not hold what it held when it was first read"
        raise FileError(source.lines.paths[0], what, "give all nodes the same files, and start again")
    return taken


def read_pairs(paths: Sequence[Path]) -> tuple[list[ContextRow], int]:
    """The pairs of files, and how many lines are none.

    Raises:
        CorpusError: there are no pairs.
    """
    found = [read_context_rows(path) for path in paths]
    rows = [row for one in found for row in one.rows]
    rejects = [reject for one in found for reject in one.rejects]
    _check(paths, len(rows), len(rejects), rejects[0] if rejects else None)
    return rows, len(rejects)


def _check(paths: Sequence[Path], pairs: int, rejects: int, first: Reject | None) -> None:
    here = f"{Path.cwd()}/"
    if not pairs:
        where = ", ".join(str(path).removeprefix(here) for path in paths)
        nothing = (where, "holds no pair", "write one JSON object a line")
        found = first and (first.where.removeprefix(here), first.what, first.hint)
        raise CorpusError(*(found or nothing))
    if first:
        lines = "1 line is" if rejects == 1 else f"{rejects} lines are"
        warn_once(log, f"{lines} no pair; the first: {first.where.removeprefix(here)}: {first.what}")


def _rows(lines: FileUnit) -> ContextRows:
    return read_context_rows(lines.paths[0], lines.span, lines.first)


def _scan(lines: FileUnit) -> _Scan:
    found = _rows(lines)
    contents, sizes = _contents(found.rows)
    return _Scan(
        split_keys(_documents(found.rows))["place"].to_numpy(),
        np.array([row.relevant for row in found.rows], bool),
        contents,
        sizes,
        len(found.rejects),
        found.rejects[0] if found.rejects else None,
    )


def _contents(rows: Sequence[ContextRow]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes [N, 16] and characters [N] as JSON."""
    as_json = [canonical(row) for row in rows]
    hashes = b"".join(hashlib.blake2b(one.encode(), digest_size=16).digest() for one in as_json)
    return np.frombuffer(hashes, np.uint8).reshape(-1, 16), np.array([len(one) for one in as_json], np.int32)


def _digest(contents: np.ndarray) -> str:
    return hashlib.sha256(contents.tobytes()).hexdigest()


def together(pair: ContextRow) -> str:
    """What a split must not cut."""
    return pair.group if pair.group is not None else " ".join(pair.sentence.split())


def parts_of_pairs(pairs: Iterable[ContextRow], fractions: Mapping[str, float], seed: int) -> np.ndarray:
    """The number of the part of each pair; no group and no sentence is cut."""
    return parts_by(_documents(pairs), fractions, seed)


def _documents(pairs: Iterable[ContextRow]) -> list[Document]:
    """What is split in place of pairs."""
    return [Document(key, key, group=key) for key in map(together, pairs)]


def _are_of(part: str, places: np.ndarray, dev: float) -> np.ndarray:
    unused = {name: pa.nulls(len(places), KEY_SCHEMA.field(name).type) for name in ("document_id", "text")}
    try:
        return are_of(part, pa.table({**unused, "place": places}), dev, 0)
    except CorpusError as error:
        hint = (
            "pairs of one sentence, and of one group such as a book, stay together: give more groups,"
            " another fraction, or a file of them as pairs.dev"
        )
        raise CorpusError("pairs.dev_fraction", error.what, hint) from None
