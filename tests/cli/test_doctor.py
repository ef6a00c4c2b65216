"""`rayner doctor`: JSON and a table of the real checks, and the exit status."""

from __future__ import annotations

import json


def test_json_names_versions_and_what_can_be_written_to(run, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    status, out, err = run("doctor", "--out", tmp_path / "runs", "--json")
    found = json.loads(out)
    assert (status, found["usable"]) == (0, True), err
    assert found["versions"]["torch"]
    assert found["storage"]["writable"] is True
    assert not (tmp_path / "runs").exists()


def test_a_table_and_a_named_problem_with_status_1(run, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    status, out, _ = run("doctor", "--out", file / "below")
    assert status == 1
    assert "precision" in out
    assert f"{file / 'below'}: error: cannot be written to" in out
    assert out.splitlines()[-1] == "not usable as it is"


def test_what_could_not_be_checked_is_left_out_of_the_table(run, replaced):
    names = ("versions", "faiss", "extras", "encoder", "gpus", "cpu", "precision", "memory")
    finding = {"severity": "error", "where": "torch", "what": "cannot be imported", "hint": "reinstall it"}
    found = dict.fromkeys((*names, "shared_memory", "storage", "ray")) | {"findings": [finding]}
    replaced("doctor.doctor", "examine", lambda out: found | {"usable": False, "errors": 1})
    status, out, _ = run("doctor")
    assert (status, "torch: error: cannot be imported; reinstall it" in out) == (1, True)
