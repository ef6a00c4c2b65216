"""What the commands of `rayner index` print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_the_base_is_checked_as_it_was_read(run, tmp_path, monkeypatch):
    base = tmp_path / "my base.csv"
    base.write_text("key,the name\n1,oak\n,ash\n", encoding="utf-8")
    monkeypatch.setattr("rayner.runtime.linking.indexes.build", lambda *given, **named: {"rejected": 1})
    options = ["--format", "columns", "--id-column", "key", "--name-column", "the name"]
    status, printed, _ = run("index", "build", tmp_path, base, "--out", tmp_path / "index", *options)
    assert status == 0
    assert f"rayner kb check '{base}' --format columns --id-column key --name-column 'the name'" in printed


def test_what_is_added_is_checked_where_rows_were_rejected(run: Any, tmp_path: Path, replaced: Any) -> None:
    more = tmp_path / "more.csv"
    more.write_text("key,name\n,ash\n2,elm\n", encoding="utf-8")
    for rejected in (0, 1):
        replaced(
            "linking.indexes", "add", lambda *given, _rejected=rejected, **named: {"rejected": _rejected}
        )
        _, printed, _ = run("index", "add", tmp_path, more, "--format", "columns", "--id-column", "key")
        assert ("rayner kb check" in printed) == bool(rejected)


def test_json_lists_all_entities_unless_told_how_many(run: Any, tmp_path: Path, replaced: Any) -> None:
    rows = [{"entity_id": f"{number}.", "name": "n", "aliases": []} for number in range(21)]
    found = {"entities": 21}
    replaced("linking.indexes", "list_index", lambda index, limit: {**found, "listed": rows[:limit]})
    command = ("index", "list", tmp_path)
    for arguments, count in (((), 21), (("--limit", 2), 2)):
        _, printed, _ = run(*command, "--json", *arguments)
        assert len(json.loads(printed)["listed"]) == count
    assert "... and 1 more; --limit N lists more, --json all" in run(*command)[1]
