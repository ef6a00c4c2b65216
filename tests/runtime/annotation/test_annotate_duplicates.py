"""Ids that several blocks have, against a plain dictionary over all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.files.places import place_of
from rayner.runtime import repeated_ids
from rayner.runtime.annotation import duplicates
from rayner.runtime.annotation.block import second
from rayner.runtime.annotation.duplicates import decision, drop_duplicates
from rayner.runtime.annotation.output_folder import ANNOTATION_SCHEMA, Output, block_name

Blocks = list[list[str]]


def write(folder: Path, blocks: Blocks) -> tuple[Output, list[str]]:
    """An output whose blocks hold documents of these ids; none where a block has no file."""
    output = Output(place_of(folder))
    names = [block_name(number // 3, number % 3) for number in range(len(blocks))]
    for name, ids in zip(names, blocks, strict=True):
        rows = [
            {
                "document_id": id_,
                "mentions": [{"start": 0, "end": 1, "type": f"T{len(id_)}"}] * (row % 3),
                "windows": row + 1,
                "source": f"{name}:{row}",
            }
            for row, id_ in enumerate(ids)
        ]
        if rows:
            pq.write_table(
                pa.Table.from_pylist(rows, ANNOTATION_SCHEMA), folder / f"documents-{name}.parquet"
            )
    return output, names


def by_definition(names: Sequence[str], blocks: Blocks) -> dict[str, dict[str, Any]]:
    """What each block loses: all but the first of an id."""
    first: dict[str, str] = {}
    lost: dict[str, dict[str, Any]] = {}
    for name, ids in zip(names, blocks, strict=True):
        rows = [
            row for row, id_ in enumerate(ids) if first.setdefault(id_, f"{name}:{row}") != f"{name}:{row}"
        ]
        if rows:
            lost[name] = {
                "rows": rows,
                "ids": [ids[row] for row in rows],
                "of": len(ids),
                "documents": len(rows),
                "windows": sum(row + 1 for row in rows),
                "rejects": [second(ids[row], f"{name}:{row}", first[ids[row]]).to_row() for row in rows],
            }
    return lost


ids_of_a_block = st.lists(st.text(st.sampled_from("ab\u00e9\U0001f642"), max_size=3), max_size=8, unique=True)


@given(
    blocks=st.lists(ids_of_a_block, min_size=1, max_size=9),
    slots=st.sampled_from([8, 2**32]),
    part=st.sampled_from([200, 2000, 2**27]),
)
def test_all_but_the_first_of_an_id_are_dropped(blocks: Blocks, slots: int, part: int) -> None:
    """Whether few slots make suspects of all, and however small the parts."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(repeated_ids, "MOST_SLOTS", slots)
        patch.setattr(repeated_ids, "PART_BYTES", part)
        output, names = write(Path(folder), blocks)
        decided = drop_duplicates(output, names, sum(map(len, blocks)))
        wanted = by_definition(names, blocks)
        assert decided == wanted.keys()
        for name, found in wanted.items():
            known = output.read_json(decision(output, name))
            known["rejects"] = [{k: v for k, v in r.items() if k != "lost"} for r in known["rejects"]]
            assert {key: known[key] for key in found} == found
        left = [
            table["document_id"].to_pylist()
            for table in map(pq.read_table, sorted(Path(folder).glob("documents-*.parquet")))
        ]
        kept = [
            [id_ for row, id_ in enumerate(ids) if row not in wanted.get(name, {"rows": ()})["rows"]]
            for name, ids in zip(names, blocks, strict=True)
            if ids
        ]
        assert left == kept


def test_ids_are_read_twice_however_many_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, names = write(tmp_path, [[f"{block}-{row}" for row in range(20)] for block in range(30)])
    monkeypatch.setattr(repeated_ids, "PART_BYTES", 100)
    read: list[str] = []
    table = duplicates._table

    def reading(output: Output, name: str, columns: list[str]) -> pa.Table:
        read.append(name)
        return table(output, name, columns)

    monkeypatch.setattr(duplicates, "_table", reading)
    assert not drop_duplicates(output, names, 600)
    assert sorted(read) == sorted([*names, *names])


def test_what_was_decided_before_the_input_grew_stays(tmp_path: Path) -> None:
    output, names = write(tmp_path, [["a", "b"], ["a", "c"]])
    assert drop_duplicates(output, names, 4) == {names[1]}
    _, all_names = write(tmp_path, [["a", "b"], ["c"], ["c", "a", "d"]])
    for _ in range(2):
        assert drop_duplicates(output, all_names, 7) == {names[1], all_names[2]}
        left = [
            pq.read_table(path)["document_id"].to_pylist() for path in sorted(tmp_path.glob("d*.parquet"))
        ]
        assert left == [["a", "b"], ["c"], ["d"]]
