"""`rayner evaluate`: its tables, and options that do not go together."""

from __future__ import annotations

import json

import pytest

from rayner.data.readers import read_corpus


def test_tables_show_percentages(run, replaced, tmp_path):
    scores = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 8, "compute_precision": "float32"}
    replaced("evaluation.evaluate", "evaluate", lambda *_, **__: {**scores, "per_type": {"PER": scores}})
    _, out, _ = run("evaluate", tmp_path, tmp_path)
    assert all(number in out for number in ("50.0", "25.0", "33.3", "PER"))


def test_a_checkpoint_is_scored_per_type(run, trained, examples):
    status, out, err = run("evaluate", trained / "best", examples / "test.jsonl", "--json")
    assert status == 0, err
    metrics = json.loads(out.splitlines()[-1])
    gold = [m.type for d in read_corpus(examples / "test.jsonl").documents for m in d.mentions]
    assert metrics["support"] == len(gold)
    assert {name: scores["support"] for name, scores in metrics["per_type"].items()} == {
        name: gold.count(name) for name in set(gold)
    }


@pytest.mark.usefixtures("undrawn")
def test_several_corpora_are_scored_together_and_kept(run, trained, examples, tmp_path):
    corpora = [examples / "test.jsonl", examples / "dev.jsonl"]
    status, out, err = run("evaluate", trained / "best", *corpora, "--out", tmp_path / "out", "--json")
    assert status == 0, err
    gold = [m for path in corpora for d in read_corpus(path).documents for m in d.mentions]
    assert json.loads(out)["support"] == len(gold)
    status, out, err = run("report", tmp_path / "out", "--json")
    assert status == 0, err
    assert str(corpora[1]) in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_folder_without_a_checkpoint_is_named(run, tmp_path):
    status, _, err = run("evaluate", tmp_path, tmp_path)
    assert (status, str(tmp_path) in err) == (2, True)
