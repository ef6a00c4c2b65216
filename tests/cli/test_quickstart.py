"""The quick start, end to end but short: conversion, check, two workers, index, scores, new sentences."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from rayner.cli.quickstart import show
from rayner.runtime import quickstart as module


@pytest.fixture(scope="module")
def result(ray_cluster, tmp_path_factory):
    out = tmp_path_factory.mktemp("quickstart")
    return module.quickstart(out, ["training.epochs=1"])


def test_it_leaves_a_checkpoint_and_scores_the_test_part(result):
    rows = [json.loads(line) for line in (module.EXAMPLES / "test.jsonl").read_text("utf-8").splitlines()]
    types = [mention["type"] for row in rows for mention in row["mentions"]]
    assert result["steps"] > 0
    assert {name: row["support"] for name, row in result["metrics"]["per_type"].items()} == Counter(types)
    # One epoch gives 0.52, with a 95 % interval of 0.47 to 0.57; without training it is about 0.
    assert result["metrics"]["f1"] > 0.35


def test_it_answers_for_each_new_sentence(result):
    assert [row["text"] for row in result["documents"]] == list(module.SENTENCES)
    for row in result["documents"]:
        assert all(0 <= m["start"] < m["end"] <= len(row["text"]) for m in row["mentions"])
    assert sum(len(row["mentions"]) for row in result["documents"]) >= 3


def test_it_links_the_test_part_and_the_new_sentences(result):
    assert result["linking"]["top1"] > 0.9  # one epoch gives 0.98, with a 95 % interval of 0.96 to 1
    linked = [m for row in result["documents"] for m in row["mentions"] if m["entity_id"]]
    assert linked
    assert all(m["entity"] and m["type"] in module.LINKED for m in linked)
    assert all(not m["entity"] for row in result["documents"] for m in row["mentions"] if not m["entity_id"])


def test_its_result_is_json_and_can_be_shown(result, capsys):
    json.dumps(result)
    show(result)
    out = capsys.readouterr().out
    assert "rayner report" in out
    assert "Firefox" in out
    assert f"{100 * result['metrics']['f1']:.1f}" in out
    assert f"{100 * result['linking']['top1']:.1f}" in out


def test_the_new_sentences_are_new():
    corpus = "".join(path.read_text(encoding="utf-8") for path in module.EXAMPLES.glob("*.jsonl"))
    assert not any(sentence in corpus for sentence in module.SENTENCES)
