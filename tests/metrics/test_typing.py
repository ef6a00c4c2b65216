"""Scores of fine types against a slow reading of their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rayner.metrics.typing import METRICS, depth_of, score_types
from rayner.metrics.typing_intervals import typing_intervals

NAMES = [
    "/person",
    "/person/artist",
    "/person/artist/author",
    "/person/doctor",
    "/place",
    "/place/city",
    "event",
]
LABELS = st.sets(st.sampled_from(NAMES), max_size=4)
ITEMS = st.lists(st.tuples(LABELS, LABELS), max_size=8)
FREQUENCIES = {"/person": 5000, "/person/artist": 10, "/place": 9, "/place/city": 1, "event": 0}

Labels = list[set[str]]


def f1_of(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def by_definition(gold: Labels, predicted: Labels) -> dict[str, float]:
    pairs = list(zip(gold, predicted, strict=True))
    right = sum(len(t & p) for t, p in pairs)
    said, had = sum(map(len, predicted)), sum(map(len, gold))
    micro = (right / said if said else 0.0, right / had if had else 0.0)
    macro = (
        mean([len(t & p) / len(p) for t, p in pairs if p]),
        mean([len(t & p) / len(t) for t, p in pairs if t]),
    )
    values = (mean([float(t == p) for t, p in pairs]), *macro, f1_of(*macro), *micro, f1_of(*micro))
    return dict(zip(METRICS, values, strict=True))


def only(items: Labels, kept: set[str]) -> Labels:
    return [labels & kept for labels in items]


def assert_part(found: dict[str, Any], gold: Labels, predicted: Labels, kept: set[str]) -> None:
    expected = by_definition(only(gold, kept), only(predicted, kept))
    del expected["accuracy"]
    assert found == pytest.approx({**expected, "support": sum(map(len, only(gold, kept)))})


@given(ITEMS)
def test_scores_are_those_of_the_definitions(drawn: list[tuple[set[str], set[str]]]) -> None:
    gold, predicted = [g for g, _ in drawn], [p for _, p in drawn]
    scores = score_types(gold, predicted, FREQUENCIES)
    occurring = set().union(*gold, *predicted)
    assert {m: scores[m] for m in METRICS} == pytest.approx(by_definition(gold, predicted))
    assert scores["support"] == len(drawn)
    assert scores["per_depth"].keys() == {str(depth_of(n)) for n in occurring}
    for depth, part in scores["per_depth"].items():
        assert_part(part, gold, predicted, {n for n in occurring if depth_of(n) == int(depth)})
    classes = {"0": (0, 0), "1-9": (1, 9), "10-99": (10, 99), "100-999": (100, 999), "1000+": (1000, 10**9)}
    covered = 0
    for name, part in scores["per_frequency"].items():
        low, high = classes[name]
        kept = {n for n in occurring if low <= FREQUENCIES.get(n, 0) <= high}
        covered += len(kept)
        assert_part(part, gold, predicted, kept)
    assert covered == len(occurring)
    assert scores["per_type"].keys() == occurring
    for name, part in scores["per_type"].items():
        expected = by_definition(only(gold, {name}), only(predicted, {name}))
        renamed = {key: expected[f"micro_{key}"] for key in ("precision", "recall", "f1")}
        assert part == pytest.approx({**renamed, "support": sum(name in labels for labels in gold)})


def test_an_item_without_a_prediction_lowers_recall_only() -> None:
    scores = score_types([["/person"], ["/person"]], [["/person"], []])
    assert (scores["macro_precision"], scores["macro_recall"]) == (1, 0.5)
    assert (scores["micro_precision"], scores["micro_recall"], scores["accuracy"]) == (1, 0.5, 0.5)


def test_depths() -> None:
    assert [depth_of(n) for n in ("/person", "person", "/person/artist", "/a/b/c")] == [1, 1, 2, 3]


def test_a_type_given_twice_counts_once() -> None:
    assert score_types([["a", "b"]], [["a", "a"]])["micro_precision"] == 1


def test_items_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="2 gold items and 1 predicted"):
        score_types([["a"], ["b"]], [["a"]])


def test_ten_thousand_types() -> None:
    rng = np.random.default_rng(0)
    names = np.array([f"type {i}" for i in range(10_331)])
    gold = [set(row) for row in names[rng.integers(0, len(names), (3000, 5))].tolist()]
    predicted = [set(rng.choice(sorted(labels), 2)) | {"type 0"} for labels in gold]
    scores = score_types(gold, predicted, {})
    assert {m: scores[m] for m in METRICS} == pytest.approx(by_definition(gold, predicted))
    assert len(scores["per_type"]) == len(set().union(*gold, *predicted))


@given(st.lists(st.lists(st.tuples(LABELS, LABELS), max_size=3), min_size=2, max_size=6))
def test_intervals_are_quantiles_of_drawn_documents(drawn: list[list[tuple[set[str], set[str]]]]) -> None:
    pairs = [pair for document in drawn for pair in document]
    sizes = [len(document) for document in drawn]
    drawn = [document for document in drawn if document]
    assume(len(drawn) > 1)
    found = typing_intervals([g for g, _ in pairs], [p for _, p in pairs], sizes, resamples=20, seed=3)
    rows = np.random.default_rng(3).integers(0, len(drawn), (20, len(drawn)))
    samples = [[pair for i in row for pair in drawn[i]] for row in rows]
    for metric in METRICS:
        scores = [by_definition([g for g, _ in s], [p for _, p in s])[metric] for s in samples]
        assert found[metric] == pytest.approx(np.percentile(scores, [2.5, 97.5]).tolist())
    assert (found["confidence"], found["resamples"]) == (0.95, 20)


@pytest.mark.parametrize("sizes", [[2], [2, 0, 0]])
def test_one_document_has_no_interval(sizes: list[int]) -> None:
    found = typing_intervals([["a"]] * 2, [["a"]] * 2, sizes)
    assert {found[metric] for metric in METRICS} == {None}


def test_an_interval_holds_the_score() -> None:
    rng = np.random.default_rng(0)
    names = np.array(NAMES)
    gold = [set(row) for row in names[rng.integers(0, 7, (400, 2))].tolist()]
    predicted = [set(row) for row in names[rng.integers(0, 7, (400, 2))].tolist()]
    scores, found = score_types(gold, predicted), typing_intervals(gold, predicted, [1] * 400)
    for metric in METRICS:
        low, high = found[metric]
        assert low < scores[metric] < high < low + 0.2
