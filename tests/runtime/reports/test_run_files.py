"""A report of a run whose files are damaged, and the file that it is written to."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rayner.errors import InputError
from rayner.runtime.reports.report import report
from rayner.runtime.reports.run_files import read_log
from tests.runtime.reports.written_run import write_run


def test_lines_of_the_log_that_are_no_records_are_counted(tmp_path: Path) -> None:
    lines = [
        b'{"step": 1, "loss": 0.5}',
        b'{"step": 2, "metrics": {"f1": 0.5}}',
        b'{"step": 3, "metrics": null}',
        b'{"step": "4", "loss": 1.0}',
        b'{"step": Infinity, "loss": 1.0}',
        b'{"step": 5, "loss": 1.0, "parts": [1]}',
        b"[1]",
        b"\xff\xfe",
        b'{"step": 6, "lo',
    ]
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(lines))
    steps, evaluations, unread = read_log(tmp_path)
    assert ([row["step"] for row in steps], [row["step"] for row in evaluations], unread) == ([1], [2], 7)


@pytest.mark.usefixtures("undrawn")
def test_a_report_replaces_pages_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_run(run)
    before = (run / "recipe.yaml").read_bytes()
    with pytest.raises(InputError, match=r"recipe\.yaml: is a file that is no page; name a page"):
        report(run, run / "recipe.yaml")
    assert (run / "recipe.yaml").read_bytes() == before
    page = tmp_path / "page.html"
    for begins in (b"", b"<!-- saved -->\n<!DOCTYPE html>"):
        page.write_bytes(begins)
        assert report(run, page) == report(run, page) == page
    assert page.stat().st_size > 1000


@pytest.mark.usefixtures("undrawn")
def test_a_full_disk_leaves_the_page_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run")
    page = report(tmp_path / "run")
    before, write = page.read_bytes(), Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        write(path, content[:100])
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        report(tmp_path / "run")
    assert page.read_bytes() == before
