from __future__ import annotations

import time

import numpy as np
import pytest

from rayner.data.schema import Document, Mention
from rayner.metrics.counts import SpanCounts, count_spans
from rayner.metrics.intervals import METRICS, bootstrap_counts, span_intervals
from rayner.metrics.spans import score_spans

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


def naive(counts: SpanCounts, resamples: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(resamples):
        draw = rng.integers(0, len(counts.gold), len(counts.gold))
        right, all_predicted, all_gold = (
            table[draw].sum() for table in (counts.correct["exact"], counts.predicted, counts.gold)
        )
        p, r = right / all_predicted, right / all_gold
        rows.append((p, r, 2 * p * r / (p + r)))
    return np.percentile(rows, [2.5, 97.5], axis=0).T


def test_intervals_hold_the_score_and_equal_naive_resampling():
    gold, predicted = noisy_corpus(40)
    intervals, scores = span_intervals(gold, predicted, resamples=4000), score_spans(gold, predicted)
    for name, expected in zip(METRICS, naive(count_spans(gold, predicted), 4000), strict=True):
        assert intervals[name][0] < scores[name] < intervals[name][1]
        assert intervals[name] == pytest.approx(expected, abs=0.006)
        for entity_type, row in intervals["per_type"].items():
            assert row[name][0] <= scores["per_type"][entity_type][name] <= row[name][1]
    assert (intervals["confidence"], intervals["resamples"]) == (0.95, 4000)


def test_a_type_s_interval_is_that_of_the_type_alone():
    gold, predicted = noisy_corpus(20)
    alone = span_intervals(gold, predicted, ["PER"])
    assert span_intervals(gold, predicted)["per_type"]["PER"] == {name: alone[name] for name in METRICS}


def test_batches_do_not_change_the_answer(monkeypatch):
    gold, predicted = noisy_corpus(30)
    whole = span_intervals(gold, predicted, resamples=200)
    monkeypatch.setattr("rayner.metrics.intervals._CELLS_PER_BATCH", 30 * 7)
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


def test_ten_thousand_documents_take_seconds():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 5, (10_000, 20))
    correct = {"exact": rng.binomial(gold, 0.8)}
    counts = SpanCounts(tuple(map(str, range(20))), gold, gold, correct, correct, 0)
    start = time.perf_counter()
    bootstrap_counts(counts, confidence=0.95, resamples=1000, seed=0)
    assert time.perf_counter() - start < 20
