"""Knowledge bases written as Parquet or as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.readers.files import suffix
from rayner.data.schema import ENTITY_SCHEMA, Entity
from rayner.errors import KnowledgeBaseError
from rayner.files.whole import text_file, whole_file

GROUP_ROWS = 8192


def write_knowledge_base(entities: Iterable[Entity], path: str | PathLike[str]) -> int:
    """Write Parquet (.parquet, .pq) or JSON lines (.jsonl, .ndjson, also with .gz); the number of entities.

    Raises:
        KnowledgeBaseError: another suffix.
    """
    path = check_suffix(Path(path))
    return _parquet(entities, path) if path.suffix.lower() in (".parquet", ".pq") else _jsonl(entities, path)


def check_suffix(path: Path) -> Path:
    """The path, if its suffix says how to write it."""
    if path.suffix.lower() not in (".parquet", ".pq") and suffix(path) not in (".jsonl", ".ndjson"):
        raise KnowledgeBaseError(str(path), "its suffix names no format", "write .parquet or .jsonl")
    return path


def _parquet(entities: Iterable[Entity], path: Path) -> int:
    rest, count = iter(entities), 0
    with whole_file(path) as partial, pq.ParquetWriter(partial, ENTITY_SCHEMA, compression="zstd") as writer:
        while group := [asdict(entity) for entity in islice(rest, GROUP_ROWS)]:
            writer.write_table(pa.Table.from_pylist(group, schema=ENTITY_SCHEMA))
            count += len(group)
    return count


def _jsonl(entities: Iterable[Entity], path: Path) -> int:
    count = 0
    with text_file(path) as file:
        for entity in entities:
            row = {name: value for name, value in asdict(entity).items() if value is not None}
            if not entity.other_ids:
                del row["other_ids"]
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count
