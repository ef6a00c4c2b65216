"""Documents whose id an earlier one has: found in bounded memory, wherever in a corpus the two are.

Two passes over the ids. The first notes in which slot of a table of bits each id's hash falls, and which
slots were hit twice; the second writes the documents of such slots, a few of all where ids are unique, to
temporary files, by hash. Each of these fits into memory, so that ids are compared as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

SLOTS_PER_ID = 16
MOST_SLOTS = 2**32
"""Two bits each: a gigabyte, from 268 million documents on."""
PART_BYTES = 2**27
"""What is compared in memory at once."""
_BYTES_BESIDE = 100
"""Of a document's row in the temporary files, beside its id."""

Tables = Callable[[list[str]], Iterator[pa.Table]]
"""Takes the names of columns; a table for each block of documents, in order."""


def repeated(
    tables: Tables, columns: Sequence[str], documents: int, blocks: int, folder: Path
) -> Iterator[pa.Table]:
    """The documents whose id an earlier one has, those of several blocks in a table, the blocks in order.

    Args:
        tables: read twice; `document_id` is one of its columns.
        columns: others of them.
        documents: how many there are, about.
        blocks: how many tables there are.
        folder: an empty one, for temporary files.

    Yields:
        `document_id`, the columns, `block` and `row`, and `first_NAME` for each column of the first one of
        the id; by block and row.
    """
    slots = _Slots(documents)
    size = _BYTES_BESIDE * documents
    for table in tables(["document_id"]):
        slots.add(_hashes(table))
        size += table.nbytes
    parts = 1 + size // PART_BYTES
    suspects = _Parted(folder / "suspects", parts)
    for block, table in enumerate(tables(["document_id", *columns])):
        hashes = _hashes(table)
        rows = np.flatnonzero(slots.were_hit_twice(hashes))
        if len(rows):
            places = {"block": np.full(len(rows), block, np.int32), "row": rows.astype(np.int32)}
            suspects.add((hashes[rows] >> np.uint64(32)) % np.uint64(parts), _with(table.take(rows), places))
    suspects.flush()
    lost = _Parted(folder / "lost", parts)
    for table in suspects.tables():
        again = _all_but_first(table, columns)
        lost.add(again["block"].to_numpy().astype(np.int64) * parts // blocks, again)
    lost.flush()
    for table in lost.tables():
        yield table.sort_by([("block", "ascending"), ("row", "ascending")])


def by_block(again: pa.Table) -> Iterator[pa.Table]:
    """The rows of each block, of a table of `repeated`."""
    begins = np.unique(again["block"].to_numpy(), return_index=True)[1].tolist()
    for begin, end in zip(begins, [*begins[1:], again.num_rows], strict=False):
        yield again.slice(begin, end - begin)


def _all_but_first(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Of rows in order, those whose id an earlier one has."""
    codes = table["document_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.arange(len(codes))
    first = np.empty(len(codes), dtype=np.int64)
    first[codes[::-1]] = order[::-1]
    lost = np.flatnonzero(first[codes] != order)
    again = table.take(lost)
    for name in columns:
        again = again.append_column(f"first_{name}", table[name].take(first[codes[lost]]))
    return again


def _with(table: pa.Table, columns: dict[str, np.ndarray]) -> pa.Table:
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table


def _hashes(table: pa.Table) -> np.ndarray:
    """[rows] uint64."""
    from pandas.util import hash_array

    ids = table["document_id"].to_numpy(zero_copy_only=False)
    return hash_array(ids.astype(object), categorize=False)  # pyright: ignore[reportCallIssue]


class _Slots:
    """Which slots the hashes of ids fall into, and which are hit more than once: two bits a slot."""

    def __init__(self, ids: int) -> None:
        slots = min(MOST_SLOTS, 1 << max(3, (SLOTS_PER_ID * ids).bit_length()))
        self._mask = np.uint64(slots - 1)
        self._once, self._twice = np.zeros(slots // 8, np.uint8), np.zeros(slots // 8, np.uint8)

    def add(self, hashes: np.ndarray) -> None:
        """Note these."""
        slots, counts = np.unique(hashes & self._mask, return_counts=True)
        byte, bit = _bits(slots)
        again = (counts > 1) | (self._once[byte] & bit != 0)
        np.bitwise_or.at(self._twice, byte[again], bit[again])
        np.bitwise_or.at(self._once, byte, bit)

    def were_hit_twice(self, hashes: np.ndarray) -> np.ndarray:
        """[hashes] whether another hash, or the same one again, fell into the slot."""
        byte, bit = _bits(hashes & self._mask)
        return self._twice[byte] & bit != 0


def _bits(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (slots >> np.uint64(3)).astype(np.int64), (np.uint64(1) << (slots & np.uint64(7))).astype(np.uint8)


class _Parted:
    """Rows on disk in parts; those of a part come back together, in the order in which they were added."""

    def __init__(self, folder: Path, parts: int) -> None:
        folder.mkdir()
        self._folder, self._count = folder, parts
        self._waiting: list[tuple[np.ndarray, pa.Table]] = []
        self._bytes = 0

    def add(self, parts: np.ndarray, table: pa.Table) -> None:
        """Add rows, with the part of each."""
        self._waiting.append((parts.astype(np.int64), table))
        self._bytes += table.nbytes
        if self._bytes >= PART_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if not self._waiting:
            return
        parts = np.concatenate([parts for parts, _ in self._waiting])
        table = pa.concat_tables([table for _, table in self._waiting])
        self._waiting, self._bytes = [], 0
        order = np.argsort(parts, kind="stable")
        borders = np.searchsorted(parts[order], np.arange(self._count + 1))
        for part in np.flatnonzero(np.diff(borders)).tolist():
            some = table.take(order[borders[part] : borders[part + 1]])
            with (self._folder / str(part)).open("ab") as file:
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                with pa.ipc.new_stream(file, table.schema, options=options) as writer:
                    writer.write_table(some)

    def tables(self) -> Iterator[pa.Table]:
        """The rows of each part that has any, in the order of the parts."""
        for path in sorted(self._folder.iterdir(), key=lambda path: int(path.name)):
            found = []
            with pa.OSFile(str(path)) as file:
                while file.tell() < file.size():
                    found.append(pa.ipc.open_stream(file).read_all())
            yield pa.concat_tables(found)
            path.unlink()
