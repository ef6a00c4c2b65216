"""Writing example sets: one shard a run of items, in any order, in any process; then one index over all."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from rayner.data.example_sets import INDEX, MANIFEST, REJECTS, ROWS_PER_GROUP, shard_path
from rayner.data.plans import ranges
from rayner.errors import RaynerError
from rayner.files.hashes import sha256_of_files
from rayner.files.whole import drop_partials, whole_file, write_bytes, write_json

VERSION = 2
ITEMS_PER_SHARD = 2048
CHARACTERS_PER_SHARD = 2**20


class Fingerprint(NamedTuple):
    """Items: a hash of their content, and the characters of each."""

    digest: str
    sizes: np.ndarray


def fingerprint(items: Iterable[Any], of_shard: bool = False) -> Fingerprint:
    """Read all items once; with `of_shard`, of an iterator, those of its next shard, as `cut_shards` cuts.

    Items are dataclasses, Pydantic models, numpy arrays or plain values, nested as they like.

    Raises:
        TypeError: an item holds something else.
    """
    digest, sizes, characters = hashlib.sha256(), list[int](), 0
    for item in items:
        content = canonical(item)
        digest.update(content.encode())
        digest.update(b"\n")
        sizes.append(len(content))
        characters += len(content)
        if of_shard and _is_full(len(sizes), characters):
            break
    return Fingerprint(digest.hexdigest(), np.array(sizes, np.int32))


def cut_shards(sizes: Sequence[int] | np.ndarray) -> tuple[int, ...]:
    """How many items each shard takes, by the characters of each item."""
    shards: list[int] = []
    count = characters = 0
    for size in np.asarray(sizes).tolist():
        count, characters = count + 1, characters + size
        if _is_full(count, characters):
            shards.append(count)
            count = characters = 0
    return (*shards, count) if count else tuple(shards)


def _is_full(count: int, characters: int) -> bool:
    return count == ITEMS_PER_SHARD or characters >= CHARACTERS_PER_SHARD


def key_of(settings: Mapping[str, Any], digests: Sequence[str]) -> str:
    """The name of the example set that these settings make of items, by the hash of each unit of them."""
    return canonical_digest([VERSION, ITEMS_PER_SHARD, CHARACTERS_PER_SHARD, settings, list(digests)])[:24]


def canonical(value: Any) -> str:
    """The value as text that is the same for the same content."""
    return json.dumps(value, default=_plain, sort_keys=True, separators=(",", ":"))


def canonical_digest(value: Any) -> str:
    """A SHA-256, in hexadecimal, that is the same for the same content."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def content_hash(value: Any) -> bytes:
    """16 bytes that are the same for the same content."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=16).digest()


def write_shard(
    folder: Path,
    shard: int,
    examples: Sequence[Mapping[str, Any]],
    lengths: Sequence[int],
    groups: Sequence[str | None],
    rejects: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write a shard, whole or not at all.

    Raises:
        RaynerError: the examples have different columns.
    """
    for example in examples:
        if example.keys() != examples[0].keys():
            raise RaynerError(f"examples with the columns {list(examples[0])} and {list(example)}")
    index = pa.table({"length": pa.array(lengths, pa.int32()), "group": pa.array(groups, pa.string())})
    of_rejects, of_index, of_examples = files_of_shard(folder, shard)
    write_bytes(of_rejects, "".join(canonical(r) + "\n" for r in rejects).encode())
    _write_table(index, of_index)
    _write_table(pa.Table.from_pylist(list(examples)), of_examples)


def files_of_shard(folder: Path, shard: int) -> tuple[Path, Path, Path]:
    """Rejects, index and examples. The examples are written last: where they are, the other two are."""
    rejects, index = folder / f"rejects-{shard:06d}.jsonl", folder / f"index-{shard:06d}.parquet"
    return rejects, index, shard_path(folder, shard)


def is_written(folder: Path, shard: int) -> bool:
    """Whether `write_shard` is done with the shard."""
    path = shard_path(folder, shard)
    # A power cut leaves empty files.
    return path.exists() and path.stat().st_size > 0


def finish(folder: Path, key: str, shards: Sequence[int]) -> None:
    """Make one set of the written shards: one schema, one index, one file of rejects, and the manifest.

    Raises:
        RaynerError: the examples of two shards have columns that no one type can hold.
    """
    _unify_schemas([shard_path(folder, i) for i in range(len(shards))])
    files = [files_of_shard(folder, i) for i in range(len(shards))]
    rejected, parts = [one[0] for one in files], [one[1] for one in files]
    tables = [pq.read_table(part) for part in parts]
    sizes = np.array([len(table) for table in tables], np.int64)
    empty = pa.table({"length": pa.array([], pa.int32()), "group": pa.array([], pa.string())})
    index = pa.concat_tables([empty, *tables])
    index = index.add_column(0, "row", pa.array(ranges(np.zeros_like(sizes), sizes), pa.int32()))
    index = index.add_column(0, "shard", pa.array(np.repeat(np.arange(len(sizes)), sizes), pa.int32()))
    # Read whole: of small row groups, the footer alone would take more memory than the rows.
    _write_table(index, folder / INDEX, max(1, len(index)))
    rejects = b"".join(path.read_bytes() for path in rejected)
    write_bytes(folder / REJECTS, rejects)
    manifest = {
        "version": VERSION,
        "key": key,
        "content": sha256_of_files(shard_path(folder, i) for i in range(len(shards))),
        "items": sum(shards),
        "examples": len(index),
        "shards": len(shards),
        "rejected": rejects.count(b"\n"),
    }
    write_json(folder / MANIFEST, manifest)
    for path in (*parts, *rejected):
        path.unlink()
    drop_partials(folder)


def _unify_schemas(paths: Sequence[Path]) -> None:
    """Write those shards anew whose columns have another type than over all (an empty list has none)."""
    schemas = {path: pq.read_schema(path).remove_metadata() for path in paths}
    named = [schema for schema in schemas.values() if len(schema)]
    try:
        unified = pa.unify_schemas(named, promote_options="permissive") if named else pa.schema([])
    except pa.ArrowException as error:
        raise RaynerError(f"the examples of two shards do not fit together: {error}") from None
    for path, schema in schemas.items():
        if len(schema) and not schema.equals(unified):
            rows = pq.read_table(path).to_pylist()
            _write_table(pa.Table.from_pylist(rows, schema=unified), path)


def _write_table(table: pa.Table, path: Path, rows_per_group: int = ROWS_PER_GROUP) -> None:
    # Read at random, a few rows at a time: these settings read a row group four times as fast as zstd
    # and dictionaries do, in about the same space.
    with whole_file(path) as partial:
        pq.write_table(table, partial, row_group_size=rows_per_group, compression="lz4", use_dictionary=False)


@cache
def _names_of_fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in _names_of_fields(type(value))}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": value.shape, "values": value.ravel().tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (set, frozenset)):
        return sorted(canonical(v) for v in value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no canonical form: {value!r}")
