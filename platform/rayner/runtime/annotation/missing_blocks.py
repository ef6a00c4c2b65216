"""The blocks of a shard that are not done. Whoever reads them for others imports no model library."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from rayner.errors import RaynerError
from rayner.runtime.annotation.input_shards import Shard
from rayner.runtime.annotation.output_folder import Output, block_name
from rayner.runtime.annotation.reading import Block, read_blocks
from rayner.runtime.faults import ReadFault, pause
from rayner.runtime.shared_folder import check_visible


@dataclass(frozen=True, slots=True)
class ToRead:
    """A shard, the bytes of its blocks, and the numbers of those that are done."""

    index: int
    shard: Shard
    block_bytes: int
    done: frozenset[int]


def missing_blocks(to_read: ToRead, output: Output) -> Iterator[tuple[str, Block]]:
    """The blocks that are not done; then note how many there are, and of how many documents."""
    count, documents, skipped = 0, 0, 0.0
    for block in _patiently(to_read.shard, to_read.block_bytes):
        documents += len(block)
        if count in to_read.done:
            skipped += block.consumed
        else:
            block.consumed += skipped
            skipped = 0.0
            yield block_name(to_read.index, count), block
        count += 1
    output.write_json(output.shard(to_read.index), {"blocks": count, "documents": documents})


def _patiently(shard: Shard, block_bytes: int) -> Iterator[Block]:
    """The blocks of a shard, each once; where reading fails, they are read from the start again.

    Raises:
        ReadFault: it failed too often in a row.
    """
    given = failures = 0
    while True:
        try:
            for block in islice(read_blocks(shard, block_bytes), given, None):
                given, failures = given + 1, 0
                yield block
            return
        except ReadFault as fault:
            failures += 1
            pause(failures, fault)


def read(output: Output, marker: Path | None, batch: pa.Table) -> Iterator[pa.Table]:
    """The blocks, pickled; an error of ours in place of one, as Ray would wrap it in its traceback."""
    to_read: ToRead = pickle.loads(batch["work"][0].as_py())
    try:
        if marker is not None:
            check_visible(marker)
        for name, block in missing_blocks(to_read, output):
            yield row_of(name, block)
    except RaynerError as error:
        yield row_of("", error)


def row_of(name: str, block: Any) -> pa.Table:
    """A block, or what became of it, as Ray Data passes it on."""
    return pa.table({"name": [name], "block": pa.array([pickle.dumps(block)], pa.large_binary())})
