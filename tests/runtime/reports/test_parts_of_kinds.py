"""A report has the parts that the kind of a run's items names, whoever made the kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rayner.errors import InputError
from rayner.runtime.reports.page_parts import OF_KINDS
from rayner.runtime.reports.report import report
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.registry import tasks
from tests.runtime.reports.written_run import write_run


class Recipes(Documents):
    """Documents of a kitchen."""

    name = "recipes"
    report_parts = ("types", "mention_confidence", "mistakes")
    about_scores = "Scored by two cooks."


def test_every_part_is_named_by_a_kind() -> None:
    assert {name for task in tasks().values() for name in task.kind.report_parts} == OF_KINDS.keys()


@pytest.mark.usefixtures("undrawn")
def test_a_kind_from_outside_names_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = replace(tasks()["recognizer"], kind=Recipes())
    monkeypatch.setattr("rayner.runtime.reports.report.tasks", lambda: {"recognizer": task})
    page = report(write_run(tmp_path / "run")).read_text("utf-8")
    for shown in (
        "<h2>Types</h2>",
        "Reliability of scores of mentions",
        "Scored by two cooks.",
        "holds no mistakes",
    ):
        assert shown in page
    for other in ("<h2>Thresholds</h2>", "<h2>Similarities</h2>", "<h2>Candidates</h2>", "loose F1 ask"):
        assert other not in page


def test_a_kind_that_names_a_part_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Recipes()
    kind.report_parts = ("types", "kitchens")
    task = replace(tasks()["recognizer"], kind=kind)
    monkeypatch.setattr("rayner.runtime.reports.report.tasks", lambda: {"recognizer": task})
    said = "items of the kind .recipes.: its report_parts name .kitchens., which no report has; name some of "
    with pytest.raises(InputError, match=said):
        report(write_run(tmp_path / "run"))
