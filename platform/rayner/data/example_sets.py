"""Example sets: what a task learns from, cut and tokenized once, in Parquet, and read back by number.

A set is a folder: `examples-*.parquet` (rows in order), `index.parquet` (shard, row, length and group of
each example), `rejects.jsonl` (what was left out or changed) and `manifest.json`.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayner.errors import InputError
from rayner.files.fetching import local

INDEX, REJECTS, MANIFEST = "index.parquet", "rejects.jsonl", "manifest.json"
ROWS_PER_GROUP = 32
CACHE_BYTES = 512 * 2**20
OPEN_FILES = 64

Column = Callable[[int], Any]


class ExampleSet:
    """The examples of a folder, by number.

    Args:
        folder: what `example_shards.finish` wrote.
        cache_bytes: how much of the decoded row groups stays in memory.

    Raises:
        InputError: the folder holds no finished example set.
    """

    def __init__(self, folder: Path, cache_bytes: int = CACHE_BYTES) -> None:
        # Of a set at a URI, what another machine has fetched is fetched here.
        self.folder = local(folder)
        try:
            self.manifest: dict[str, Any] = json.loads((self.folder / MANIFEST).read_text("utf-8"))
        except FileNotFoundError:
            raise InputError(str(folder), "no finished example set", "build it again") from None
        index = pq.read_table(self.folder / INDEX)
        self.lengths: np.ndarray = index["length"].to_numpy()
        self.groups: np.ndarray | None = None
        """The group of each example (str or None), or None where no example has one."""
        if index["group"].null_count < len(index):
            self.groups = index["group"].to_numpy(zero_copy_only=False)
        self._shards, self._rows = index["shard"].to_numpy(), index["row"].to_numpy()
        self._cache_bytes, self._cached_bytes = cache_bytes, 0
        self._row_groups: OrderedDict[tuple[int, int], tuple[dict[str, Column], int]] = OrderedDict()
        self._files: OrderedDict[int, pq.ParquetFile] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.lengths)

    def __reduce__(self) -> tuple[Any, ...]:
        return ExampleSet, (self.folder, self._cache_bytes)

    def fetch(self, indices: Sequence[int] | np.ndarray) -> list[dict[str, Any]]:
        """The examples with these numbers, in this order, as the caller's own.

        Lists of numbers come as numpy arrays, lists of such lists as lists of arrays, everything else as
        plain values. Threads may share a set.
        """
        rows: list[dict[str, Any]] = [{} for _ in indices]
        wanted: dict[tuple[int, int], list[int]] = {}
        for place, i in enumerate(indices):
            wanted.setdefault((int(self._shards[i]), int(self._rows[i]) // ROWS_PER_GROUP), []).append(place)
        with self._lock:
            for (shard, group), places in wanted.items():
                columns = self._row_group(shard, group)
                for place in places:
                    row = int(self._rows[indices[place]]) % ROWS_PER_GROUP
                    rows[place] = {name: column(row) for name, column in columns.items()}
        return rows

    def column(self, name: str, indices: Sequence[int] | np.ndarray) -> list[Any]:
        """The plain values of a column in the examples with these numbers, in this order.

        No other column is read, and nothing is kept: of many examples, this takes a small part of `fetch`.
        """
        chosen = np.asarray(indices, np.int64)
        shards, rows, values = self._shards[chosen], self._rows[chosen], [None] * len(chosen)
        order = np.argsort(shards, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(shards[order])) + 1) if len(order) else ():
            groups, group = np.unique(rows[places] // ROWS_PER_GROUP, return_inverse=True)
            with self._lock:
                file = self._file(int(shards[places[0]]))
                table = file.read_row_groups(groups.tolist(), columns=[name], use_threads=False)
            # Only the last row group of a file may have fewer rows, and it comes last.
            taken = table[name].take(pa.array(group * ROWS_PER_GROUP + rows[places] % ROWS_PER_GROUP))
            for place, value in zip(places.tolist(), taken.to_pylist(), strict=True):
                values[place] = value
        return values

    def _row_group(self, shard: int, group: int) -> dict[str, Column]:
        cached = self._row_groups.get((shard, group))
        if cached is not None:
            self._row_groups.move_to_end((shard, group))
            return cached[0]
        table = self._file(shard).read_row_group(group, use_threads=False)
        columns = {name: column_reader(table[name]) for name in table.column_names}
        self._row_groups[shard, group] = columns, table.nbytes
        self._cached_bytes += table.nbytes
        while self._cached_bytes > self._cache_bytes and len(self._row_groups) > 1:
            self._cached_bytes -= self._row_groups.popitem(last=False)[1][1]
        return columns

    def _file(self, shard: int) -> pq.ParquetFile:
        if shard not in self._files:
            self._files[shard] = pq.ParquetFile(shard_path(self.folder, shard), memory_map=True)
            if len(self._files) > OPEN_FILES:
                self._files.popitem(last=False)[1].close()
        self._files.move_to_end(shard)
        return self._files[shard]


def shard_path(folder: Path, shard: int) -> Path:
    """The file of a shard."""
    return folder / f"examples-{shard:06d}.parquet"


def column_reader(column: pa.ChunkedArray) -> Column:
    """The value of each row of a column; arrays of numbers are copies, so that none pins the column."""
    return _reader(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))


def _reader(array: pa.Array) -> Column:
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        return array.to_pylist().__getitem__
    offsets, values = array.offsets.to_pylist(), array.values
    present = array.is_valid().to_pylist()
    if _is_number(values.type) and not values.null_count:
        numbers = values.to_numpy(zero_copy_only=False)
        return lambda i: numbers[offsets[i] : offsets[i + 1]].copy() if present[i] else None
    inner = _reader(values)
    return lambda i: [inner(j) for j in range(offsets[i], offsets[i + 1])] if present[i] else None


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
