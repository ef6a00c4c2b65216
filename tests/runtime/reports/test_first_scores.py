"""The scores with which a report begins: those that its task is judged by."""

from __future__ import annotations

import json
import re

import pytest

from rayner.runtime.reports.page_parts import NAMES
from rayner.runtime.reports.report import report
from rayner.tasks.registry import tasks


@pytest.mark.parametrize(
    ("metrics", "tiles", "curve"),
    [
        (
            {"mrr": 0.5, "mrr_other_stories": 0.75, "top1": 0.25},
            ["mean reciprocal rank", "mean reciprocal rank among other stories"],
            "mean reciprocal rank",
        ),
        (
            {"mrr": 0.5, "mrr_other_stories": None, "top1": 0.25},
            ["mean reciprocal rank"],
            "mean reciprocal rank",
        ),
        (
            {"accuracy": 0.5, "macro_f1": 0.25, "micro_f1": 0.75},
            ["accuracy", "macro F1", "micro F1"],
            "macro F1",
        ),
        ({"conll_f1": 0.5, "muc_f1": 0.25}, ["CoNLL F1"], "CoNLL F1"),
    ],
)
def test_a_page_begins_with_what_the_task_is_judged_by(tmp_path, metrics, tiles, curve):
    run = tmp_path / "run"
    (run / "best").mkdir(parents=True)
    (run / "recipe.yaml").write_text("task: chains\ncorpus: {train: [a], dev_fraction: 0.25}\n")
    (run / "best" / "metrics.json").write_text(json.dumps(metrics))
    (run / "log.jsonl").write_text(json.dumps({"step": 1, "epoch": 1, "metrics": metrics}) + "\n")
    page = report(run).read_text()
    assert re.findall(r'<div class="tile">(.*?)<b>', page) == tiles
    assert f">{curve}</text>" in page
    assert ">top 1</text>" not in page
    assert "25% of the training documents" in page


@pytest.mark.parametrize("section", ["mentions", "pairs"])
def test_a_part_that_was_held_out_is_named(tmp_path, section):
    run = tmp_path / "run"
    (run / "best").mkdir(parents=True)
    (run / "recipe.yaml").write_text(f"task: any\n{section}: {{train: [a], dev_fraction: 0.25}}\n")
    (run / "best" / "metrics.json").write_text('{"top1": 0.5}')
    page = report(run).read_text()
    assert f"{section}, dev" in page
    assert "25% of those of train" in page


def test_every_f1_of_a_task_is_written_as_people_write_it():
    scores = {metric for task in tasks().values() for metric in task.metrics if metric.endswith("f1")}
    assert {"muc_f1", "f1"} <= scores <= NAMES.keys()
