from __future__ import annotations

import math

import numpy as np
import pytest

from rayner.metrics.linking import score_linking
from rayner.metrics.linking_intervals import METRICS, linking_intervals
from tests.metrics.given_answers import Given, Gold, answer

pytestmark = pytest.mark.filterwarnings("error")


def noisy(strings: int, seed: int = 0, nil: float = 0.3) -> tuple[list[Gold], list[Given]]:
    rng = np.random.default_rng(seed)
    gold, answers = [], []
    for i in range(strings):
        order = "".join(rng.permutation(list("abcdef")))
        ids = () if rng.random() < nil else (order[0] if rng.random() < 0.7 else order[2],)
        score = round(float(rng.normal(0.6 if ids else 0.4, 0.2)), 1)
        for _ in range(rng.integers(1, 4)):
            gold.append(Gold(f"m{i}", ids))
            answers.append(answer(order, score, nil=score < 0.4))
    return gold, answers


def test_intervals_hold_the_score_and_equal_naive_resampling():
    gold, answers = noisy(60)
    found = linking_intervals(gold, answers, resamples=2000)
    scores = score_linking(gold, answers)
    rng = np.random.default_rng(9)
    rows_of = [[i for i, g in enumerate(gold) if g.text == f"m{s}"] for s in range(60)]
    drawn = []
    for _ in range(1500):
        rows = [row for s in rng.integers(0, 60, 60) for row in rows_of[s]]
        drawn.append(score_linking([gold[r] for r in rows], [answers[r] for r in rows]))
    for name in METRICS:
        low, high = np.percentile([d[name] for d in drawn], [2.5, 97.5])
        assert found[name] == pytest.approx([low, high], abs=0.02), name
        assert found[name][0] <= scores[name] <= found[name][1]


def test_batches_do_not_change_the_answer_and_the_seed_does(monkeypatch: pytest.MonkeyPatch):
    gold, answers = noisy(30)
    whole = linking_intervals(gold, answers, resamples=100)
    assert linking_intervals(gold, answers, resamples=100, seed=1) != whole
    monkeypatch.setattr("rayner.metrics.resampling.CELLS_PER_BATCH", 100)
    parts = linking_intervals(gold, answers, resamples=100)
    for name in METRICS:
        assert parts[name] == pytest.approx(whole[name])


def test_draws_without_a_nil_mention_say_nothing_of_refusals():
    gold = [Gold(f"m{i}", () if i < 2 else ("a",)) for i in range(20)]
    answers = [answer(("a", "b"), 0.5, nil=i < 3) for i in range(20)]
    found = linking_intervals(gold, answers, resamples=500)["nil_precision"]
    rng = np.random.default_rng(0)
    drawn = []
    for rows in rng.integers(0, 20, (500, 20)):
        some = [gold[i] for i in rows]
        if any(not one.entity_ids for one in some):
            drawn.append(score_linking(some, [answers[i] for i in rows])["nil_precision"])
    assert found == pytest.approx(np.percentile(drawn, [2.5, 97.5]).tolist())
    none = linking_intervals(gold, [answer(("a", "b"), 0.5) for _ in gold], resamples=50)
    assert none["nil_precision"] == [0.0, 0.0]


def test_what_cannot_be_estimated_is_none():
    for gold, answers in ([], []), noisy(1):
        assert [linking_intervals(gold, answers)[name] for name in METRICS] == [None] * len(METRICS)
    known = linking_intervals(*noisy(20, nil=0.0), resamples=50)
    assert [name for name in METRICS if known[name] is None] == ["nil_precision", "nil_recall", "nil_auc"]
    only = linking_intervals(*noisy(20, nil=1.1), resamples=50)
    assert [name for name in METRICS if only[name] is not None] == ["nil_precision", "nil_recall", "accuracy"]


def test_one_nil_mention_is_missing_from_many_draws():
    gold, answers = noisy(10, nil=0.0)
    gold.append(Gold("nothing", ()))
    answers.append(Given(None, -math.inf, ()))
    found = linking_intervals(gold, answers, resamples=200)
    assert found["nil_recall"] == [1.0, 1.0]
    assert found["nil_auc"] == [1.0, 1.0]
