from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rayner.data.mention_rows import MentionRow, read_mention_rows
from rayner.errors import CorpusError, FileError


def rows(path: Path, content: str) -> list[MentionRow]:
    path.write_text(content, encoding="utf-8", newline="")
    return list(read_mention_rows(path))


def test_each_line_of_a_text_is_a_mention(tmp_path: Path):
    long = "x" * 10_000
    assert rows(tmp_path / "m.txt", f"\ufeffnginx\r\n\n Go\u2028lang \n{long}") == [
        MentionRow(1, "nginx"),
        MentionRow(2, ""),
        MentionRow(3, " Go\u2028lang "),
        MentionRow(4, long),
    ]
    assert rows(tmp_path / "empty.txt", "") == []
    assert rows(tmp_path / "old.txt", "oak\rrowan\r") == [MentionRow(1, "oak"), MentionRow(2, "rowan")]


def test_json_lines_keep_the_place_of_what_cannot_be_read(tmp_path: Path):
    content = '{"mention": "nginx", "id": 3}\n\n{"mention": 5}\n{"mention": ""}\n[1]\n{"men\n'
    found = rows(tmp_path / "m.jsonl", content)
    assert [(row.line, row.text) for row in found] == [(1, "nginx"), (3, None), (4, ""), (5, None), (6, None)]
    assert found[1].fault == "no text under `mention`"
    assert "not JSON" in (found[4].fault or "")


@pytest.mark.parametrize("second", ["[" * 100_000, f'{{"id": {"1" * 5000}}}'], ids=["deep", "long"])
def test_json_that_no_text_stack_or_number_can_hold_is_a_fault_of_its_row(tmp_path: Path, second: str):
    content = '{"mention": "\\ud800 x"}\n' + second + '\n{"mention": "nginx"}\n'
    found = rows(tmp_path / "m.jsonl", content)
    assert [row.text for row in found] == [None, None, "nginx"]
    assert "half a surrogate pair" in (found[0].fault or "")
    assert "not JSON" in (found[1].fault or "")
    assert rows(tmp_path / "one.json", second)[0].fault


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_mentions_is_read(tmp_path: Path, indent: int | None):
    array = [{"mention": "nginx"}, "Go", {"name": "x"}, 5, {"mention": "\ud800"}]
    for name in ("m.json", "m.jsonl"):
        found = rows(tmp_path / name, json.dumps(array, indent=indent))
        assert [(row.line, row.text) for row in found] == [
            (1, "nginx"),
            (2, "Go"),
            (3, None),
            (4, None),
            (5, None),
        ]
    assert rows(tmp_path / "m.json", "[]") == []
    assert rows(tmp_path / "m.json", json.dumps({"mention": "Go", "id": 1}, indent=indent)) == [
        MentionRow(1, "Go")
    ]


def test_lines_of_json_that_are_arrays_or_strings_are_faults(tmp_path: Path):
    found = rows(tmp_path / "m.jsonl", '[1]\n{"mention": "nginx"}\n"Go"\n')
    assert [row.text for row in found] == [None, "nginx", None]


def test_tables_have_a_column_of_mentions(tmp_path: Path):
    content = 'id,mention\n1,"a, ""b""\nc"\n\n2\n3,d\n'
    assert rows(tmp_path / "m.csv", content) == [
        MentionRow(3, 'a, "b"\nc'),
        MentionRow(5, None, "1 cell, none under `mention`"),
        MentionRow(6, "d"),
    ]
    assert rows(tmp_path / "m.csv", "\n \nmention\nd\n") == [MentionRow(4, "d")]
    assert rows(tmp_path / "m.csv", "id,mention\r1,a\r2,b\r") == [MentionRow(2, "a"), MentionRow(3, "b")]
    assert rows(tmp_path / "m.tsv", 'mention\tid\n5" gun\t1\n') == [MentionRow(2, '5" gun')]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("m.csv", b"name\nx\n", "m.csv:1: no column 'mention' among 'name'"),
        ("m.csv", b"\n\nname\nx\n", "m.csv:3: no column 'mention' among 'name'"),
        ("m.csv", b"", "no column 'mention' among none"),
        ("m.csv", b'mention\na\n"b\n', "m.csv:3"),
        ("m.csv", b'"mention\na\n', "m.csv:1: unexpected end of data, at line 2"),
        ("m.csv", b'mention\na\n"b\nc\nd\n', "m.csv:3: unexpected end of data, at line 5"),
        ("m.csv", b"men\rtion\na\n", "m.csv:1: new-line character"),
        ("m.txt", b"ok\n\xff\n", "m.txt:2"),
        ("m.parquet", b"PAR1\xff", "m.parquet: is no text; write CSV"),
        ("m.json", b'{\n "data": {"0": {"mention": "x"}}\n}\n', "one JSON object, no array"),
        ("m.json", b'[\n {"mention": "x"}\n {"mention": "y"}\n]\n', "m.json:3: not JSON"),
        ("m.json", b'[{"mention": "x"},\n {"mention": "y"}', "m.json:2: not JSON"),
        ("m.json", b'{\n "mention": x\n}\n', "m.json:2: not JSON"),
    ],
)
def test_files_that_cannot_be_read_say_where(tmp_path: Path, name: str, content: bytes, expected: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=expected):
        list(read_mention_rows(tmp_path / name))
    with pytest.raises(FileError, match=r"none\.txt"):
        list(read_mention_rows(tmp_path / "none.txt"))


def test_a_packed_file_is_read(tmp_path: Path):
    (tmp_path / "m.jsonl.gz").write_bytes(gzip.compress(b'{"mention": "nginx"}\n'))
    assert list(read_mention_rows(tmp_path / "m.jsonl.gz")) == [MentionRow(1, "nginx")]
