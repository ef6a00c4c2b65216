"""Documents of one id in several blocks: found, written down, and taken out of the output."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.writers.brat import file_name
from rayner.files.places import Place
from rayner.runtime.annotation.block import second
from rayner.runtime.annotation.output_folder import DUPLICATES, WORK, Output, at_once, damaged, whole
from rayner.runtime.repeated_ids import by_block, repeated


def drop_duplicates(output: Output, blocks: Sequence[str], documents: int) -> frozenset[str]:
    """Of documents with one id in several blocks, keep the first, as within a block.

    Can be cut short and done again; what was decided then stays.

    Args:
        blocks: names of all blocks, in order.
        documents: how many they hold, or were to hold before any were taken out.

    Returns:
        The blocks that lose documents: `decision` says which.
    """
    marker = output.place.below(DUPLICATES)
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
    def decide(of_block: pa.Table) -> str:
        name = blocks[int(of_block["block"][0].as_py())]
        _decide(output, name, of_block)
        return name

    found = repeated(partial(_tables, output, blocks), ["source"], documents, len(blocks), folder)
    return [name for table in found for name in at_once(decide, by_block(table))]


def _decide(output: Output, name: str, lost: pa.Table) -> None:
    """Write down what a block loses."""
    rows = lost["row"].to_pylist()
    table = _table(output, name, ["mentions", "windows"])
    entries = table.take(rows).to_pylist()
    mentions = [mention for entry in entries for mention in entry["mentions"]]
    columns = [lost[column].to_pylist() for column in ("document_id", "source", "first_source")]
    rejects = [second(*found) for found in zip(*columns, strict=True)]
    found = {
        "rows": rows,
        "ids": columns[0],
        "of": table.num_rows,
        "documents": len(rows),
        "windows": sum(entry["windows"] for entry in entries),
        "mentions": Counter(m["type"] for m in mentions),
        "fine_types": Counter(fine["name"] for m in mentions for fine in m["types"] or ()),
        "linked": sum(m["entity_id"] is not None for m in mentions),
        "rejects": [{**reject.to_row(), "lost": "document"} for reject in rejects],
    }
    output.write_json(decision(output, name), found)


def _drop_all(output: Output, names: Sequence[str]) -> None:
    for _ in at_once(lambda name: _drop(output, name, output.read_json(decision(output, name))), names):
        pass


def _drop(output: Output, name: str, found: dict[str, Any]) -> None:
    """Take the rows out of a block's files; nothing where they are out. Parquet, the mark, comes last."""
    if "of" not in found:
        raise damaged(decision(output, name))
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
    with whole(file), file.filesystem.open_input_file(file.path) as stream, pq.ParquetFile(stream) as parquet:
        return parquet.read(columns, use_threads=False)
