"""The end of an annotation: ids given twice, the table of rejects, and whether all documents are there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.core.util.hashing import hash_array

from rayner.data.writers.base import Written
from rayner.data.writers.names import file_name
from rayner.errors import RaynerError
from rayner.runtime.annotation.block import second
from rayner.runtime.annotation.output import REJECTS, WORK, Output, at_once

IDS_AT_ONCE = 2**26
"""Ids whose hashes are in memory together: half a gigabyte."""


def finish(output: Output, shards: int) -> dict[str, Any]:
    """Leave each id once, write the rejects, and count.

    Every step can be cut short and done again.

    Returns:
        `documents, rejected, duplicates, mentions, linked, types, windows, words, first_reject`.

    Raises:
        RaynerError: documents are missing or too many, which no input can cause.
    """
    blocks = output.blocks()
    _drop_duplicates(output, blocks)
    counts: Counter[str] = Counter()
    types: Counter[str] = Counter()
    first = None
    decided = _decided(output)
    with output.place.below(REJECTS).writing() as stream:
        for name, known in zip(blocks, output.sidecars(blocks), strict=True):
            twice = output.read_json(_decision(output, name)) if name in decided else {}
            for source, sign in ((known, 1), (twice, -1)):
                types.update({k: sign * v for k, v in source.get("mentions", {}).items()})
                for key in ("documents", "windows", "linked"):
                    counts[key] += sign * source.get(key, 0)
            counts["duplicates"] += known["duplicates"] + twice.get("documents", 0)
            counts["rejected"] += known["rejected"] + twice.get("documents", 0)
            counts["words"] += known["words"]
            rejects = known["rejects"] + twice.get("rejects", [])
            first = first or next(iter(rejects), None)
            for reject in rejects:
                stream.write(json.dumps(reject, ensure_ascii=False).encode() + b"\n")
    _check(output, shards, blocks, counts)
    return {
        "documents": counts["documents"],
        "rejected": counts["rejected"],
        "duplicates": counts["duplicates"],
        "mentions": (+types).total(),
        "linked": counts["linked"],
        "types": dict((+types).most_common()),
        "windows": counts["windows"],
        "words": counts["words"],
        "first_reject": first,
    }


def _check(output: Output, shards: int, blocks: Sequence[str], counts: Counter[str]) -> None:
    """Compare what the readers read with what lies in the files."""
    read = output.shards()
    given = sum(shard["documents"] for shard in read.values())
    written = sum(_rows_of(output, blocks))
    missing = set(range(shards)) - set(read)
    expected = sum(shard["blocks"] for shard in read.values())
    sound = written == counts["documents"] and given == written + counts["rejected"]
    if missing or len(blocks) != expected or not sound:
        raise RaynerError(
            f"{output.place.shown}: {given:,} documents were read, {written:,} lie in the output and "
            f"{counts['rejected']:,} among the rejects ({len(blocks):,} of {expected:,} blocks, "
            f"{len(missing):,} of the inputs unread); did the input change, or another run write here? "
            "start over with --fresh"
        )


def _rows_of(output: Output, blocks: Sequence[str]) -> Iterator[int]:
    present = {info.base_name for info in output.place.files()}
    files = [output.documents(name) for name in blocks]
    there = [file for file in files if file.path.rpartition("/")[2] in present]
    return at_once(lambda file: pq.read_metadata(file.path, filesystem=file.filesystem).num_rows, there)


def _drop_duplicates(output: Output, blocks: Sequence[str]) -> None:
    """Of documents with one id in several blocks, keep the first, as within a block."""
    marker = output.place.below(f"{WORK}/duplicates.json")
    if not output.read_json(marker):
        doubled = _doubled(output, blocks)
        decided = list(_decide(output, blocks, doubled)) if len(doubled) else []
        output.write_json(marker, {"blocks": decided})
    for name in sorted(_decided(output)):
        _drop(output, name, output.read_json(_decision(output, name)))


def _decided(output: Output) -> frozenset[str]:
    """The blocks that lose documents."""
    return frozenset(output.read_json(output.place.below(f"{WORK}/duplicates.json")).get("blocks", ()))


def _decision(output: Output, name: str) -> Any:
    return output.place.below(f"{WORK}/duplicates/{name}.json")


def _doubled(output: Output, blocks: Sequence[str]) -> np.ndarray:
    """The hashes that more than one id has; in several passes where the ids are many."""
    total = sum(known["documents"] for known in output.sidecars(blocks))
    passes = 1 + total // IDS_AT_ONCE
    doubled = [np.zeros(0, dtype=np.uint64)]
    for turn in range(passes):
        hashes = [_hashes(table) for table in _tables(output, blocks, ["document_id"])]
        some = np.concatenate([np.zeros(0, dtype=np.uint64), *(h[h % passes == turn] for h in hashes)])
        values, counts = np.unique(some, return_counts=True)
        doubled.append(values[counts > 1])
    return np.concatenate(doubled)


def _decide(output: Output, blocks: Sequence[str], doubled: np.ndarray) -> Iterator[str]:
    """Write down, for each block that loses documents, which, and yield its name."""
    seen: dict[str, str] = {}
    columns = ["document_id", "source", "mentions", "windows"]
    for name, table in zip(blocks, _tables(output, blocks, columns), strict=True):
        suspects = np.flatnonzero(np.isin(_hashes(table), doubled))
        lost = []
        for row, entry in zip(suspects.tolist(), table.take(suspects).to_pylist(), strict=True):
            source = entry["source"]
            if seen.setdefault(entry["document_id"], source) != source:
                lost.append((row, entry))
        if not lost:
            continue
        rejects = [second(e["document_id"], e["source"], seen[e["document_id"]]) for _, e in lost]
        decision = {
            "rows": [row for row, _ in lost],
            "ids": [entry["document_id"] for _, entry in lost],
            "of": table.num_rows,
            "documents": len(lost),
            "windows": sum(entry["windows"] for _, entry in lost),
            "mentions": Counter(m["type"] for _, entry in lost for m in entry["mentions"]),
            "linked": sum(m["entity_id"] is not None for _, entry in lost for m in entry["mentions"]),
            "rejects": [{**reject.to_row(), "lost": "document"} for reject in rejects],
        }
        output.write_json(_decision(output, name), decision)
        yield name


def _drop(output: Output, name: str, decision: dict[str, Any]) -> None:
    """Take the rows out of a block's files; nothing where they are out. Parquet, the mark, comes last."""
    file = output.documents(name)
    table = pq.read_table(file.path, filesystem=file.filesystem)
    if table.num_rows != decision["of"]:
        return
    lost = set(decision["rows"])
    lines = (output.jsonl(name).read() or b"").split(b"\n")[:-1]
    # Fewer lines: they were taken out before the work was cut short.
    if len(lines) == decision["of"]:
        kept = [line for i, line in enumerate(lines) if i not in lost]
        output.jsonl(name).write(b"".join(line + b"\n" for line in kept))
    for document_id in decision["ids"]:
        base = file_name(document_id, Written())
        for suffix in (".txt", ".ann"):
            output.brat(name).below(base + suffix).delete()
    rest = table.take([i for i in range(table.num_rows) if i not in lost])
    sink = pa.BufferOutputStream()
    pq.write_table(rest, sink, compression="zstd")
    file.write(sink.getvalue().to_pybytes())


def _tables(output: Output, blocks: Sequence[str], columns: list[str]) -> Iterator[pa.Table]:
    """Columns of each block; an empty table for a block of rejects alone."""
    present = {info.base_name for info in output.place.files()}

    def read(name: str) -> pa.Table:
        file = output.documents(name)
        if file.path.rpartition("/")[2] not in present:
            return pa.table({column: [] for column in columns})
        return pq.read_table(file.path, columns=columns, filesystem=file.filesystem)

    return at_once(read, blocks)


def _hashes(table: pa.Table) -> np.ndarray:
    ids = table["document_id"].to_numpy(zero_copy_only=False)
    return hash_array(ids.astype(object), categorize=False)
