"""The quick start, end to end but short: conversion, trainings, index, scores, annotation, one request."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from rayner.cli.quickstart import show
from rayner.runtime.quickstart import quickstart as module
from rayner.serving.quickstart import quickstart
from rayner.tasks.stages import read_pipeline

# In this process: two workers of Ray Train have their own tests, and cost as much as all the rest.
SHORT = ["training.epochs=1", "scaling.workers=0"]
# It starts a cluster of its own, as the command does.
pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Every other document of the example corpus, and the entities that these mention."""
    folder = tmp_path_factory.mktemp("examples") / "software"
    shutil.copytree(module.EXAMPLES, folder)
    mentioned = set()
    for part in module.PARTS:
        kept = _rows(folder / f"{part}.jsonl")[::2]
        mentioned |= {m["entity_id"] for row in kept for m in row["mentions"] if "entity_id" in m}
        _write(folder / f"{part}.jsonl", kept)
    entities = [e for e in _rows(folder / "knowledge_base.jsonl") if e["entity_id"] in mentioned]
    _write(folder / "knowledge_base.jsonl", entities)
    return folder


@pytest.fixture(scope="module")
def result(examples, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "EXAMPLES", examples)
        with quickstart(tmp_path_factory.mktemp("quickstart"), SHORT) as result:
            return result


@pytest.fixture(scope="module")
def rows(examples):
    return _rows(examples / "test.jsonl")


def _rows(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _write(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def test_it_leaves_a_checkpoint_and_scores_the_test_part(result, rows):
    types = [mention["type"] for row in rows for mention in row["mentions"]]
    assert result["steps"] > 0
    assert {name: row["support"] for name, row in result["metrics"]["per_type"].items()} == Counter(types)
    # One epoch over half of the corpus gives 0.23 (0.15 to 0.31); without training it is about 0.
    assert result["metrics"]["f1"] > 0.1


def test_it_answers_for_each_new_sentence(result):
    assert [row["text"] for row in result["documents"]] == list(module.SENTENCES)
    for row in result["documents"]:
        assert all(0 <= m["start"] < m["end"] <= len(row["text"]) for m in row["mentions"])
    assert sum(len(row["mentions"]) for row in result["documents"]) >= 1


def test_it_links_the_test_part_and_the_new_sentences(result, rows):
    linking = result["linking"]
    named = [m for row in rows for m in row["mentions"] if m["type"] in module.LINKED]
    assert linking["mentions"] == len(named)
    assert linking["nil"] == sum(m.get("entity_id") is None for m in named)
    # Hard enough that settings differ, easy enough that most are right: 0.90 (0.86 to 0.95).
    assert 0.8 < linking["top1"] < 0.96
    assert linking["top1"] < linking["top3"]
    assert linking["nil_auc"] > 0.8
    assert 0 < linking["nil_precision"] < 1
    linked = [m for row in result["documents"] for m in row["mentions"] if m["entity_id"]]
    assert linked
    assert all(m["name"] and m["type"] in module.LINKED for m in linked)
    assert all(not m["name"] for row in result["documents"] for m in row["mentions"] if not m["entity_id"])


def test_its_typer_scores_linked_mentions_and_is_a_stage(result, rows):
    linked = sum(m.get("entity_id") is not None for row in rows for m in row["mentions"])
    assert result["typing"]["support"] == linked
    assert 0 < result["typing"]["macro_f1"] < 1
    assert [stage.record.stage for stage in read_pipeline(result["pipeline"]).stages] == [
        "mentions",
        "types",
        "entities",
    ]
    assert all(m["types"] for row in result["documents"] for m in row["mentions"])


def test_it_annotates_the_texts_of_the_test_part(result, rows):
    annotated = result["annotated"]
    assert (annotated["documents"], annotated["rejected"]) == (len(rows), 0)
    assert annotated["linked"] > 0
    assert list(Path(annotated["out"]).glob("documents-*.parquet"))


def test_the_answer_over_http_is_that_of_predict(result):
    (answer,) = result["served"]["answer"]["documents"]
    expected = result["documents"][0]["mentions"]
    assert [(m["start"], m["end"], m["type"], m["entity_id"]) for m in answer["mentions"]] == [
        (m["start"], m["end"], m["type"], m["entity_id"]) for m in expected
    ]
    assert result["served"]["request"].startswith(f"curl -s {result['served']['address']}/v1/annotate ")


def test_its_result_is_json_and_can_be_shown(result, capsys):
    json.dumps(result)
    show(result)
    out = capsys.readouterr().out
    assert "rayner report" in out
    assert "Firefox" in out
    assert "NIL: precision" in out
    assert result["served"]["request"] in out
    assert f"{100 * result['metrics']['f1']:.1f}" in out
    assert f"{100 * result['typing']['accuracy']:.1f}" in out
    assert f"{100 * result['linking']['top1']:.1f}" in out


def test_the_new_sentences_are_new():
    corpus = "".join(path.read_text(encoding="utf-8") for path in module.EXAMPLES.glob("*.jsonl"))
    assert not any(sentence in corpus for sentence in module.SENTENCES)
