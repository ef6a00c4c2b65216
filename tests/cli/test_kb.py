"""`rayner kb`: counts on standard output, rejects beside the file, one line for an error."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("no,label,other,x\n1,gout,podagra|gouty,\n2,,,\n3,asthma,,\n")
    return path


def test_convert_counts_and_keeps_the_rejects(run, table, tmp_path):
    out = tmp_path / "out" / "kb.jsonl"
    flags = ["--id-column", "no", "--alias-column", "other"]
    status, printed, _ = run("kb", "convert", table, "--out", out, *flags, "--json")
    counts = json.loads(printed.splitlines()[-1])
    assert status == 0
    assert {k: counts[k] for k in ("format", "entities", "names", "rejected")} == {
        "format": "columns",
        "entities": 2,
        "names": 4,
        "rejected": 1,
    }
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows[0] == {"entity_id": "1", "name": "gout", "aliases": ["podagra", "gouty"]}
    rejects = out.with_name("kb.jsonl.rejects.jsonl")
    (reject,) = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert (reject["where"], reject["kind"], reject["entity_id"]) == (f"{table}:3", "empty name", "2")
    status, printed, _ = run("kb", "convert", out, "--out", tmp_path / "kb.parquet")
    assert status == 0
    assert "rayner kb check" in printed
    # Another base in the same folder has rejects of its own.
    assert run("kb", "convert", out, "--out", out.with_name("kb.parquet"))[0] == 0
    assert out.with_name("kb.parquet.rejects.jsonl").read_text() == ""
    assert len(rejects.read_text().splitlines()) == 1


def test_check_finds_what_convert_rejects(run, table):
    flags = ["--id-column", "no", "--alias-column", "other"]
    status, printed, _ = run("kb", "check", table, *flags, "--json")
    found = json.loads(printed.splitlines()[-1])
    assert status == 1
    assert found["kinds"] == {"empty name": 1, "without alias": 1}
    assert (found["errors"], found["warnings"]) == (1, 1)
    assert set(found["findings"][0]) == {"kind", "severity", "where", "what", "hint"}
    assert "empty name" in run("kb", "check", table, *flags)[1]


def test_errors_are_one_line_and_exit_2(run, table, tmp_path):
    for arguments, expected in [
        ((table, "--out", tmp_path / "kb.parquet"), "--id-column"),
        ((table, "--out", table.with_suffix(".txt")), ".parquet or .jsonl"),
        ((table, "--out", tmp_path / "kb.parquet", "--format", "xml"), "'xml' is not one of"),
        ((tmp_path / "none", "--out", tmp_path / "kb.parquet"), "none"),
    ]:
        status, printed, error = run("kb", "convert", *arguments)
        assert (status, printed) == (2, "")
        assert expected in error
        assert len(error.splitlines()) == 1
    assert not (tmp_path / "kb.parquet").exists()


def test_an_input_is_not_overwritten(run, tmp_path):
    path = tmp_path / "kb.jsonl"
    path.write_text('{"id": 1, "name": "a"}\n')
    status, _, error = run("kb", "convert", path, "--out", path)
    assert status == 2
    assert "overwrite" in error
    assert path.read_text() == '{"id": 1, "name": "a"}\n'
    given = tmp_path / "new.jsonl.rejects.jsonl"
    path.rename(given)
    status, _, error = run("kb", "convert", given, "--out", tmp_path / "new.jsonl")
    assert status == 2
    assert "name another file" in error
    assert not (tmp_path / "new.jsonl").exists()
