"""What `rayner index build` prints at its end."""

from __future__ import annotations


def test_the_base_is_checked_as_it_was_read(run, tmp_path, monkeypatch):
    base = tmp_path / "my base.csv"
    base.write_text("key,the name\n1,oak\n,ash\n", encoding="utf-8")
    monkeypatch.setattr("rayner.runtime.linking.indexes.build", lambda *given, **named: {"rejected": 1})
    options = ["--format", "columns", "--id-column", "key", "--name-column", "the name"]
    status, printed, _ = run("index", "build", tmp_path, base, "--out", tmp_path / "index", *options)
    assert status == 0
    assert f"rayner kb check '{base}' --format columns --id-column key --name-column 'the name'" in printed
