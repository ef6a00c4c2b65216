"""Documents of one id in several blocks: found in bounded memory, written down, and taken out of the output.

Two passes over the ids. The first notes in which slot of a table of bits each id's hash falls, and which
slots were hit twice; the second writes the documents of such slots, a few of all where ids are unique, to
temporary files, by hash. Each of these fits into memory, so that ids are compared as they are.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.util import hash_array

from rayner.data.writers.brat import file_name
from rayner.files.places import Place
from rayner.runtime.annotation.block import second
from rayner.runtime.annotation.output_folder import WORK, Output, at_once

SLOTS_PER_ID = 16
MOST_SLOTS = 2**32
"""Two bits each: a gigabyte, from 268 million documents on."""
PART_BYTES = 2**27
"""What is compared in memory at once."""
_BYTES_BESIDE = 100
"""Of a document's row in the temporary files, beside its id."""


def drop_duplicates(output: Output, blocks: Sequence[str], documents: int) -> frozenset[str]:
    """Of documents with one id in several blocks, keep the first, as within a block.

    Can be cut short and done again; what was decided then stays.

    Args:
        blocks: names of all blocks, in order.
        documents: how many they hold, or were to hold before any were taken out.

    Returns:
        The blocks that lose documents: `decision` says which.
    """
    marker = output.place.below(f"{WORK}/duplicates.json")
    known = output.read_json(marker)
    decided = list(known.get("blocks", ()))
    if known.get("of") != len(blocks):
        # What was decided over fewer blocks, before the input grew, holds: they come before the new ones.
        _drop_all(output, decided)
        with tempfile.TemporaryDirectory(prefix="rayner-ids-") as folder:
            decided += _decide_all(output, blocks, documents, Path(folder))
        output.write_json(marker, {"blocks": decided, "of": len(blocks)})
    _drop_all(output, decided)
    return frozenset(decided)


def decision(output: Output, name: str) -> Place:
    """What a block loses."""
    return output.place.below(f"{WORK}/duplicates/{name}.json")


def _decide_all(output: Output, blocks: Sequence[str], documents: int, folder: Path) -> list[str]:
    slots = _Slots(documents)
    size = _BYTES_BESIDE * documents
    for table in _tables(output, blocks, ["document_id"]):
        slots.add(_hashes(table))
        size += table.nbytes
    parts = 1 + size // PART_BYTES
    suspects = _Parted(folder / "suspects", parts)
    for block, table in enumerate(_tables(output, blocks, ["document_id", "source"])):
        hashes = _hashes(table)
        rows = np.flatnonzero(slots.were_hit_twice(hashes))
        if len(rows):
            places = {"block": np.full(len(rows), block, np.int32), "row": rows.astype(np.int32)}
            suspects.add((hashes[rows] >> np.uint64(32)) % np.uint64(parts), _with(table.take(rows), places))
    suspects.flush()
    lost = _Parted(folder / "lost", parts)
    for table in suspects.tables():
        doubled = _all_but_first(table)
        lost.add(doubled["block"].to_numpy().astype(np.int64) * parts // len(blocks), doubled)
    lost.flush()
    return [name for table in lost.tables() for name in at_once(*_deciding(output, blocks, table))]


def _all_but_first(table: pa.Table) -> pa.Table:
    """Of rows in order, those whose id an earlier one has, with the source of the first such as `first`."""
    codes = table["document_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.arange(len(codes))
    first = np.empty(len(codes), dtype=np.int64)
    first[codes[::-1]] = order[::-1]
    lost = np.flatnonzero(first[codes] != order)
    return table.take(lost).append_column("first", table["source"].take(first[codes[lost]]))


def _deciding(output: Output, blocks: Sequence[str], lost: pa.Table) -> tuple[Any, Iterator[pa.Table]]:
    """What decides over a block, and the lost rows of each block."""
    lost = lost.sort_by([("block", "ascending"), ("row", "ascending")])
    begins = np.unique(lost["block"].to_numpy(), return_index=True)[1].tolist()

    def decide(of_block: pa.Table) -> str:
        name = blocks[int(of_block["block"][0].as_py())]
        _decide(output, name, of_block)
        return name

    ends = [*begins[1:], lost.num_rows]
    return decide, (lost.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True))


def _decide(output: Output, name: str, lost: pa.Table) -> None:
    """Write down what a block loses."""
    rows = lost["row"].to_pylist()
    table = _table(output, name, ["mentions", "windows"])
    entries = table.take(rows).to_pylist()
    columns = [lost[column].to_pylist() for column in ("document_id", "source", "first")]
    rejects = [second(*found) for found in zip(*columns, strict=True)]
    found = {
        "rows": rows,
        "ids": columns[0],
        "of": table.num_rows,
        "documents": len(rows),
        "windows": sum(entry["windows"] for entry in entries),
        "mentions": Counter(m["type"] for entry in entries for m in entry["mentions"]),
        "linked": sum(m["entity_id"] is not None for entry in entries for m in entry["mentions"]),
        "rejects": [{**reject.to_row(), "lost": "document"} for reject in rejects],
    }
    output.write_json(decision(output, name), found)


def _drop_all(output: Output, names: Sequence[str]) -> None:
    for _ in at_once(lambda name: _drop(output, name, output.read_json(decision(output, name))), names):
        pass


def _drop(output: Output, name: str, found: dict[str, Any]) -> None:
    """Take the rows out of a block's files; nothing where they are out. Parquet, the mark, comes last."""
    file = output.documents(name)
    table = pq.read_table(file.path, filesystem=file.filesystem)
    if table.num_rows != found["of"]:
        return
    lost = set(found["rows"])
    lines = (output.jsonl(name).read() or b"").split(b"\n")[:-1]
    # Fewer lines: they were taken out before the work was cut short.
    if len(lines) == found["of"]:
        kept = [line for i, line in enumerate(lines) if i not in lost]
        output.jsonl(name).write(b"".join(line + b"\n" for line in kept))
    for document_id in found["ids"]:
        base = file_name(document_id)
        for suffix in (".txt", ".ann"):
            output.brat(name).below(base + suffix).delete()
    rest = table.filter(pa.array([i not in lost for i in range(table.num_rows)], pa.bool_()))
    sink = pa.BufferOutputStream()
    pq.write_table(rest, sink, compression="zstd")
    file.write(sink.getvalue().to_pybytes())


def _tables(output: Output, blocks: Sequence[str], columns: list[str]) -> Iterator[pa.Table]:
    """Columns of each block; an empty table for a block of rejects alone."""
    present = output.document_files()
    empty = pa.table({column: pa.array([], pa.string()) for column in columns})
    return at_once(lambda name: _table(output, name, columns) if name in present else empty, blocks)


def _table(output: Output, name: str, columns: list[str]) -> pa.Table:
    file = output.documents(name)
    with file.filesystem.open_input_file(file.path) as stream, pq.ParquetFile(stream) as parquet:
        return parquet.read(columns, use_threads=False)


def _with(table: pa.Table, columns: dict[str, np.ndarray]) -> pa.Table:
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table


def _hashes(table: pa.Table) -> np.ndarray:
    """[rows] uint64."""
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
