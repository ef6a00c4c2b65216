"""Large files read in parts: the same documents, with the same names and places."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rayner.data.readers import FileUnit, Reading, files, find_parts, find_units, read_unit
from rayner.data.readers.base import Reject
from rayner.errors import FileError

lines = st.one_of(
    st.builds(lambda text: json.dumps({"text": text}, ensure_ascii=False), st.text(max_size=20)),
    st.builds(lambda n: json.dumps({"document_id": f"d{n}", "text": "x"}), st.integers(0, 99)),
    st.sampled_from(["", "  ", "{", "no JSON", "\r"]),
)


def in_parts(unit: FileUnit) -> Reading:
    """What the parts hold, one after another; ids that several parts have are not looked at."""
    read = [read_unit(part) for part in find_parts(unit)]
    whole = Reading()
    for one in read:
        whole.documents += one.documents
        whole.places += one.places
        whole.rejects += one.rejects
        whole.repaired += one.repaired
        whole.ignored += one.ignored
    return whole


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(lines, min_size=1), st.booleans(), st.booleans(), st.integers(1, 60))
def test_parts_of_json_lines_are_the_file(
    tmp_path: Path, rows: list[str], marked: bool, ended: bool, size: int
) -> None:
    path = tmp_path / "in.jsonl"
    rows = [row for number, row in enumerate(rows) if "document_id" not in row or row not in rows[:number]]
    path.write_text("\ufeff" * marked + "\n".join(rows) + "\n" * ended, "utf-8", newline="")
    unit = FileUnit("jsonl", (str(path),), "in")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PART_BYTES", size)
        parts, found = find_parts(unit), in_parts(unit)
    data = path.read_bytes()
    if len(data) < 2 * size:
        assert parts == [unit]
    elif len(parts) > 1:
        spans = [part.span or (0, 0) for part in parts]
        assert b"".join(data[begin:end] for begin, end in spans) == data
        assert all(data[end - 1 : end] == b"\n" for _, end in spans[:-1])
        assert [part.first for part in parts] == [data[:begin].count(b"\n") for begin, _ in spans]
    whole = read_unit(unit)
    assert found.documents == whole.documents
    assert found.places == whole.places
    assert found.rejects == whole.rejects
    assert (found.repaired, found.ignored) == (whole.repaired, whole.ignored)


def test_a_line_that_is_not_text_is_one_reject_in_parts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.jsonl"
    good = [json.dumps({"document_id": f"d{i}", "text": "x"}).encode() for i in range(20)]
    path.write_bytes(b"\n".join([*good[:12], b'{"text": "\xff"}', *good[12:]]))
    monkeypatch.setattr(files, "PART_BYTES", 100)
    unit = FileUnit("jsonl", (str(path),), "in")
    hint = "convert it to UTF-8, for example with iconv -f latin1 -t utf-8"
    for found in (in_parts(unit), read_unit(unit)):
        assert found.rejects == [Reject(f"{path}:13", "byte 0xff is not UTF-8", hint)]
        assert len(found.documents) == 20


@pytest.mark.parametrize("size", [1, 200, 10**9])
def test_parts_of_parquet_are_the_file(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.parquet"
    table = {
        "document_id": [f"d{i}" if i % 3 else None for i in range(50)],
        "text": [f"text {i}" if i != 33 else None for i in range(50)],
        "mood": [1] * 50,
    }
    pq.write_table(pa.table(table), path, row_group_size=7)
    (unit,) = find_units(path)
    monkeypatch.setattr(files, "PART_BYTES", size)
    assert len(find_parts(unit)) in {1: [8], 200: range(2, 9), 10**9: [1]}[size]
    found, whole = in_parts(unit), read_unit(unit)
    assert (found.documents, found.places) == (whole.documents, whole.places)
    assert (found.rejects, found.ignored) == (whole.rejects, whole.ignored)
    assert len(whole.documents) == 49


def test_a_packed_file_is_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(b"x" * 1000)
    monkeypatch.setattr(files, "PART_BYTES", 10)
    unit = FileUnit("jsonl", (str(path),), "in")
    assert find_parts(unit) == [unit]


@pytest.mark.parametrize("format", ["jsonl", "parquet", "pubtator", "text"])
def test_a_file_that_cannot_be_read_is_no_reject(tmp_path: Path, format: str) -> None:
    unit = FileUnit(format, (str(tmp_path / "gone"),), "gone")
    with pytest.raises(FileError, match="gone: "):
        read_unit(unit)
    if format != "parquet":
        with pytest.raises(FileError, match="Is a directory"):
            read_unit(replace(unit, paths=(str(tmp_path),)))


def test_a_damaged_parquet_file_is_a_reject(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"document_id": ["d"] * 999, "text": ["some text"] * 999}), path)
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes(40) + data[80:])
    (reject,) = read_unit(FileUnit("parquet", (str(path),), "in")).rejects
    assert (reject.where, reject.hint) == (f"{path}:row 0", "write the file again")
    assert reject.what.startswith("the rows before row 999 cannot be read (")
