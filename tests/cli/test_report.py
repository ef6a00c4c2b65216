"""`rayner report` of a run."""

from __future__ import annotations

import json

import pytest


@pytest.mark.usefixtures("one_moment")
def test_the_page_of_a_run_lies_in_its_folder_or_where_it_is_said(run, trained, tmp_path):
    status, out, err = run("report", trained, "--json")
    assert status == 0, err
    assert json.loads(out) == {"report": str(trained / "report.html")}
    page = (trained / "report.html").read_text(encoding="utf-8")
    assert "Software" in page
    status, out, _ = run("report", trained, "--out", tmp_path / "page.html")
    assert (status, out) == (0, f"report: {tmp_path / 'page.html'}\n")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page


def test_a_folder_without_a_run_is_named(run, tmp_path):
    status, out, err = run("report", tmp_path)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {tmp_path}: no training run, sweep or evaluation; ")
    assert all(f"`rayner {command}`" in err for command in ("train", "tune", "evaluate"))
