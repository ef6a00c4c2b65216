from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from rayner.data.schema import Document, Mention
from rayner.metrics.intervals import METRICS, span_intervals
from rayner.metrics.spans import score_spans
from tests.metrics.dense_counts import dense_counts

pytestmark = pytest.mark.filterwarnings("error")


def document(name: int, *mentions: tuple[int, int, str]) -> Document:
    return Document(str(name), "x" * 50, tuple(Mention(*m) for m in mentions))


def noisy_corpus(documents: int, seed: int = 1) -> tuple[list[Document], list[Document]]:
    rng = np.random.default_rng(seed)
    gold, predicted = [], []
    for i in range(documents):
        mentions = [(s, s + 2, "PER" if s % 4 else "ORG") for s in range(0, 40, 2) if rng.random() < 0.3]
        kept = [m for m in mentions if rng.random() < 0.8]
        gold.append(document(i, *mentions))
        predicted.append(document(i, *kept, *([(45, 47, "PER")] if rng.random() < 0.3 else [])))
    return gold, predicted


def naive(gold: list[Document], predicted: list[Document], types: list[str], resamples: int) -> np.ndarray:
    """[metrics, 1 + types, low and high], from the same draws, with a number for each document and type."""
    tables = dense_counts(gold, predicted, types)
    right, given, known = (
        np.concatenate([t.sum(1, keepdims=True), t], 1)
        for t in (tables["correct exact"], tables["predicted"], tables["gold"])
    )
    rows = []
    for draw in np.random.default_rng(0).integers(0, len(gold), (resamples, len(gold))):
        correct = right[draw].sum(0)
        p, r = correct / np.maximum(given[draw].sum(0), 1), correct / np.maximum(known[draw].sum(0), 1)
        rows.append((p, r, 2 * p * r / np.where(p + r == 0, 1, p + r)))
    return np.moveaxis(np.percentile(rows, [2.5, 97.5], axis=0), 0, -1)


def test_intervals_hold_the_score_and_are_those_of_the_definition():
    gold, predicted = noisy_corpus(40)
    types = ["LOC", "PER", "ORG"]
    intervals = span_intervals(gold, predicted, types, resamples=400)
    scores, expected = score_spans(gold, predicted, types), naive(gold, predicted, types, 400)
    for name, bounds in zip(METRICS, expected, strict=True):
        assert intervals[name][0] < scores[name] < intervals[name][1]
        assert intervals[name] == pytest.approx(bounds[0], abs=1e-12)
        for entity_type, row in zip(types[1:], bounds[2:], strict=True):
            assert intervals["per_type"][entity_type][name] == pytest.approx(row, abs=1e-12)
            low, high = intervals["per_type"][entity_type][name]
            assert low <= scores["per_type"][entity_type][name] <= high
        assert intervals["per_type"]["LOC"][name] is None
    assert (intervals["confidence"], intervals["resamples"]) == (0.95, 400)


def test_a_type_s_interval_is_that_of_the_type_alone():
    gold, predicted = noisy_corpus(20)
    alone = span_intervals(gold, predicted, ["PER"])
    assert span_intervals(gold, predicted)["per_type"]["PER"] == {name: alone[name] for name in METRICS}


def test_batches_do_not_change_the_answer(monkeypatch):
    gold, predicted = noisy_corpus(30)
    whole = span_intervals(gold, predicted, resamples=200)
    monkeypatch.setattr("rayner.metrics.resampling.CELLS_PER_BATCH", 30 * 7)
    monkeypatch.setattr("rayner.metrics.intervals._SCORES_AT_ONCE", 200)
    assert span_intervals(gold, predicted, resamples=200) == whole


def test_the_seed_decides_the_draws():
    gold, predicted = noisy_corpus(30)
    assert span_intervals(gold, predicted, seed=3) == span_intervals(gold, predicted, seed=3)
    assert span_intervals(gold, predicted, seed=3)["f1"] != span_intervals(gold, predicted, seed=4)["f1"]


def test_more_documents_give_a_narrower_interval():
    few, many = (span_intervals(*noisy_corpus(n), resamples=300)["f1"] for n in (20, 500))
    assert many[1] - many[0] < 0.4 * (few[1] - few[0])


def test_what_cannot_be_estimated_is_none():
    nothing = dict.fromkeys(METRICS)
    one = span_intervals([document(0, (0, 1, "PER"))], [document(0, (0, 1, "PER"))])
    assert {name: one[name] for name in METRICS} == one["per_type"]["PER"] == nothing
    empty = span_intervals([document(0), document(1)], [document(0), document(1)], ["PER"])
    assert {name: empty[name] for name in METRICS} == empty["per_type"]["PER"] == nothing
    assert span_intervals([], [])["f1"] is None
    gold = [document(0, (0, 1, "PER")), document(1, (0, 1, "PER"))]
    absent = span_intervals(gold, gold, ["PER", "LOC"])
    assert absent["per_type"]["LOC"] == nothing
    assert absent["f1"] == absent["per_type"]["PER"]["recall"] == [1.0, 1.0]


def test_ten_thousand_types_take_the_memory_of_what_occurs():
    names = [f"T{i}" for i in range(10_000)]
    mentions = [[(s, s + 1, names[(3 * i + s) % 10_000]) for s in range(4)] for i in range(1000)]
    gold, predicted = ([document(i, *m[at:]) for i, m in enumerate(mentions)] for at in (0, 1))
    tracemalloc.start(1)
    try:
        intervals = span_intervals(gold, predicted, names, resamples=1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(row["f1"] is not None for row in intervals["per_type"].values()) == 3001
    assert intervals["recall"] == [0.75, 0.75]
    assert peak < 400 * 2**20  # the scores of all types and resamples together: 1 GB
