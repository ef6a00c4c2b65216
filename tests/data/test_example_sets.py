from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data import example_shards
from rayner.data.example_sets import ExampleSet
from rayner.data.example_shards import (
    cut_shards,
    fingerprint,
    finish,
    is_written,
    key_of,
    shard_path,
    write_shard,
)
from rayner.data.schema import Document, Mention
from rayner.errors import InputError, RaynerError


def rows(count: int) -> list[dict]:
    rng = np.random.default_rng(0)
    return [
        {
            "ids": rng.integers(0, 9, rng.integers(0, 40)).astype(np.int32),
            "first": rng.integers(0, 2, 5).astype(bool),
            "spans": [[i, i + 1]] * (i % 3),
            "weights": [0.5, i],
            "names": ["a", "é"][: i % 3],
            "text": f"text {i}",
            "size": i,
            "maybe": None if i % 2 else i,
        }
        for i in range(count)
    ]


def write(folder: Path, *shards: list[dict], groups: bool = False) -> ExampleSet:
    folder.mkdir(parents=True, exist_ok=True)
    for number, shard in enumerate(shards):
        keys = [f"g{i % 3}" if groups else None for i in range(len(shard))]
        write_shard(folder, number, shard, [len(r.get("ids", ())) for r in shard], keys)
    finish(folder, "key", [len(s) for s in shards])
    return ExampleSet(folder)


def same(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype
            np.testing.assert_array_equal(found[name], value)
        elif name in ("spans", "weights"):
            assert [list(np.atleast_1d(v)) for v in found[name]] == [list(np.atleast_1d(v)) for v in value]
        else:
            assert found[name] == value


@pytest.mark.parametrize("cache_bytes", [1, 2**29])
def test_examples_come_back_in_the_order_asked(tmp_path: Path, cache_bytes: int) -> None:
    examples = rows(700)
    write(tmp_path, examples[:300], [], examples[300:310], examples[310:])
    found = ExampleSet(tmp_path, cache_bytes)
    assert len(found) == 700
    assert found.groups is None
    np.testing.assert_array_equal(found.lengths, [len(r["ids"]) for r in examples])
    asked = [699, 0, 305, 305, 128, 127, *np.random.default_rng(1).permutation(700)]
    for example, i in zip(found.fetch(asked), asked, strict=True):
        same(example, examples[i])
    assert found.fetch([]) == []


def test_a_column_is_read_alone(tmp_path: Path) -> None:
    examples = rows(700)
    write(tmp_path, examples[:300], [], examples[300:310], examples[310:])
    found = ExampleSet(tmp_path)
    asked = [699, 0, 305, 305, 128, 127, *np.random.default_rng(1).permutation(700)]
    for name in ("text", "maybe"):
        assert found.column(name, asked) == [examples[i][name] for i in asked]
    assert found.column("size", np.array([299, 311])) == [299, 311]
    assert found.column("size", []) == []
    assert not found._row_groups


def test_the_cache_stays_within_its_bound(tmp_path: Path) -> None:
    write(tmp_path, rows(1000))
    found = ExampleSet(tmp_path, 60_000)
    for i in np.random.default_rng(0).permutation(1000):
        found.fetch([i])
        assert found._cached_bytes <= 60_000
        assert found._cached_bytes == sum(size for _, size in found._row_groups.values())


def test_what_is_fetched_belongs_to_the_caller(tmp_path: Path) -> None:
    found = write(tmp_path, [{"ids": [1, 2, 3]}])
    found.fetch([0])[0]["ids"][:] = 0
    assert found.fetch([0])[0]["ids"].tolist() == [1, 2, 3]


def test_groups_keep_their_names_and_gaps(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [{"x": 1}, {"x": 2}], [1, 1], ["a", None])
    finish(tmp_path, "key", [2])
    groups = ExampleSet(tmp_path).groups
    assert groups is not None
    assert list(groups) == ["a", None]


def test_one_schema_over_shards_whose_first_lists_are_empty(tmp_path: Path) -> None:
    found = write(
        tmp_path, [{"ids": [], "name": None}], [], [{"ids": [1], "name": "x"}], [{"ids": [0.5], "name": None}]
    )
    assert [e["ids"].tolist() for e in found.fetch([0, 1, 2])] == [[], [1.0], [0.5]]
    assert [e["name"] for e in found.fetch([0, 1, 2])] == [None, "x", None]
    files = [p for p in sorted(tmp_path.glob("examples-*")) if ds.dataset(p).schema.names]
    assert len({str(ds.dataset(p).schema) for p in files}) == 1


def test_a_set_without_examples(tmp_path: Path) -> None:
    found = write(tmp_path, [])
    assert len(found) == 0
    assert len(write(tmp_path / "none")) == 0


def test_nulls_inside_lists_survive(tmp_path: Path) -> None:
    found = write(tmp_path, [{"a": [1, None], "b": None}, {"a": None, "b": [[1], None]}])
    first, second = found.fetch([0, 1])
    assert first == {"a": [1, None], "b": None}
    assert second["a"] is None
    assert second["b"][0].tolist() == [1]
    assert second["b"][1] is None


def test_columns_that_differ_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RaynerError, match="columns"):
        write(tmp_path, [{"a": 1}, {"a": 1, "b": 2}])
    with pytest.raises(RaynerError, match="do not fit"):
        write(tmp_path, [{"a": 1}], [{"a": "x"}])


def test_a_shard_that_a_power_cut_left_empty_is_not_written(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [{"x": 1}], [1], [None])
    assert is_written(tmp_path, 0)
    shard_path(tmp_path, 0).write_bytes(b"")
    assert not is_written(tmp_path, 0)


def test_an_unfinished_set_is_refused(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [{"x": 1}], [1], [None])
    with pytest.raises(InputError, match="no finished example set"):
        ExampleSet(tmp_path)


def test_a_set_pickles_as_its_folder(tmp_path: Path) -> None:
    found = write(tmp_path, rows(10))
    found.fetch(range(10))
    assert len(pickle.dumps(found)) < 1000
    same(pickle.loads(pickle.dumps(found)).fetch([3])[0], rows(10)[3])


def test_the_files_of_a_finished_set(tmp_path: Path) -> None:
    write(tmp_path, rows(3), rows(2))
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "examples-000000.parquet",
        "examples-000001.parquet",
        "index.parquet",
        "manifest.json",
        "rejects.jsonl",
    ]
    assert json.loads((tmp_path / "manifest.json").read_text())["examples"] == 5


def test_the_index_of_many_examples_has_a_small_footer(tmp_path: Path) -> None:
    write(tmp_path, *([{"size": i} for i in range(400)] for _ in range(3)))
    assert pq.ParquetFile(tmp_path / "index.parquet").num_row_groups == 1
    assert pq.ParquetFile(tmp_path / "examples-000001.parquet").num_row_groups > 1


documents = st.builds(
    Document,
    st.text(),
    st.text(),
    st.lists(st.builds(Mention, st.integers(0, 9), st.integers(0, 9), st.text())).map(tuple),
)


@given(st.lists(documents), st.integers(0, 3))
def test_the_key_is_that_of_the_content(items: list[Document], setting: int) -> None:
    copy = pickle.loads(pickle.dumps(items))
    digest = fingerprint(items).digest
    assert key_of({"a": setting, "b": 1}, [digest]) == key_of(
        {"b": 1, "a": setting}, [fingerprint(iter(copy)).digest]
    )
    assert key_of({"a": setting}, [digest]) != key_of({"a": setting + 1}, [digest])
    assert key_of({"a": setting}, [digest]) != key_of({"a": setting}, [digest, digest])
    more = [*items, Document("x", "y")]
    assert fingerprint(items).digest != fingerprint(more).digest


def test_arrays_count_whole_in_the_fingerprint() -> None:
    long = np.zeros(5000)
    changed = long.copy()
    changed[2500] = 1
    assert fingerprint([long]).digest != fingerprint([changed]).digest
    assert fingerprint([np.zeros((2, 3))]).digest != fingerprint([np.zeros((3, 2))]).digest
    with pytest.raises(TypeError, match="canonical"):
        fingerprint([object()])


def test_shards_are_cut_by_count_and_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_shards, "ITEMS_PER_SHARD", 3)
    assert cut_shards([1] * 7) == (3, 3, 1)
    assert cut_shards([1] * 6) == (3, 3)
    assert cut_shards([]) == ()
    monkeypatch.setattr(example_shards, "CHARACTERS_PER_SHARD", 10)
    assert cut_shards(fingerprint(["x" * 20, "a", "b"]).sizes) == (1, 2)
