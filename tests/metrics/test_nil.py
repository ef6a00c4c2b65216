from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from rayner.errors import InputError
from rayner.metrics import nil
from rayner.metrics.nil import (
    NIL,
    OPERATING_POINTS,
    PRECISION,
    RECALL,
    RIGHT,
    WRONG,
    NilCalibration,
    Sample,
    evidence,
    fit_nil,
)
from rayner.metrics.reliability import reliability

SHARES = (0.0, 0.02, 0.1, 0.3, 0.7, 1.0)


def sample(n: int = 2000, seed: int = 0, nil: float = 0.5, gap: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """Evidence and outcomes; a fifth of the mentions with an entity are wrong."""
    rng = np.random.default_rng(seed)
    outcome = np.where(rng.random(n) < nil, NIL, np.where(rng.random(n) < 0.8, RIGHT, WRONG))
    centre = np.where(outcome == RIGHT, gap, np.where(outcome == WRONG, 0.3, 0.0))
    return centre[:, None] * (0.5, 0.3, 0.4) + rng.normal(0, 0.4, (n, 3)), outcome


def accuracy(fitted: NilCalibration, table: np.ndarray, outcome: np.ndarray, threshold: float) -> float:
    linked = fitted.log_odds(table)[:, 1] >= threshold
    return float(np.where(linked, outcome == RIGHT, outcome == NIL).mean())


def test_evidence_is_score_margin_and_lead_over_the_next_four():
    table = evidence([[0.9, 0.5, 0.4, 0.3, 0.2, 9.0], [0.7, 0.6], [0.4], []])
    np.testing.assert_allclose(table[0], [0.9, 0.4, 0.55])
    np.testing.assert_allclose(table[1], [0.7, 0.1, 0.1])
    assert table[2].tolist() == [0.4, math.inf, math.inf]
    assert (table[3] == -math.inf).all()


def test_odds_are_those_of_scikit_learn():
    table, outcome = sample()
    fitted = fit_nil(table, outcome)
    values = StandardScaler().fit_transform(table)
    for column, other in enumerate((WRONG, NIL)):
        rows = (outcome == RIGHT) | (outcome == other)
        weight = np.where(outcome == NIL, 1 / (outcome == NIL).sum(), 1 / (outcome != NIL).sum())[rows]
        model = LogisticRegression(max_iter=1000)
        model.fit(values[rows], outcome[rows] == RIGHT, sample_weight=weight * rows.sum() / weight.sum())
        assert model.coef_.min() > 0
        expected = model.decision_function(values)
        np.testing.assert_allclose(fitted.log_odds(table)[:, column], expected, atol=1e-3)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_one_calibration_holds_for_every_share_of_nil(share: float):
    fitted = fit_nil(*sample(4000))
    table, outcome = sample(4000, 1, share)
    found = fitted.probability(table, share)
    assert reliability(found, outcome == RIGHT).error < 0.03
    # Without the prior it would be far off.
    assert reliability(fitted.probability(table, 1 - share), outcome == RIGHT).error > 0.04
    best = max(accuracy(fitted, table, outcome, t) for t in np.linspace(-6, 6, 200))
    assert accuracy(fitted, table, outcome, fitted.threshold("accuracy", share)) > best - 0.01


def test_the_sample_is_judged_by_models_that_were_fitted_without_it():
    rng = np.random.default_rng(0)
    # Noise: whoever has seen the outcomes finds some order in it.
    table, outcome = rng.normal(0, 1, (60, 3)), np.where(np.arange(60) % 2, RIGHT, NIL)
    fitted = fit_nil(table, outcome)
    seen = fitted.log_odds(table)[:, 1]
    odds, probability, kept, weight = fitted.sample.columns(0.5)
    assert np.abs(odds - seen).max() > 0.01
    assert (kept == outcome).all()
    assert weight.sum() == pytest.approx(1)
    assert ((probability > 0) & (probability < 1)).all()
    together = fit_nil(table, outcome, group=np.repeat(np.arange(30), 2)).sample
    assert together != fitted.sample


def test_weights_count_within_each_side_alone():
    table, outcome = sample(400)
    weight = np.where(outcome == NIL, 7.0, 0.1)
    plain = fit_nil(table, outcome).log_odds(table)
    np.testing.assert_allclose(fit_nil(table, outcome, weight).log_odds(table), plain, atol=1e-6)
    doubled = np.flatnonzero(outcome == NIL)[:20]
    heavy = np.ones(400)
    heavy[doubled] = 2
    again = np.append(np.arange(400), doubled)
    one, other = fit_nil(table, outcome, heavy), fit_nil(table[again], outcome[again])
    np.testing.assert_allclose(one.log_odds(table)[:, 1], other.log_odds(table)[:, 1], atol=0.1)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(-0.5, 2), st.integers(6, 60), st.sampled_from(SHARES))
def test_points_are_in_order_evidence_never_speaks_against_and_json_keeps_all(
    seed: int, gap: float, n: int, share: float
):
    table, outcome = sample(n, seed, gap=gap)
    outcome[:2] = RIGHT, NIL
    fitted = fit_nil(table, outcome)
    thresholds = [fitted.threshold(p, share) for p in ("high_recall", "accuracy", "high_precision")]
    assert thresholds == sorted(thresholds)
    assert min(*fitted.wrong.weights, *fitted.nil.weights) >= 0
    more = fitted.probability(table + np.random.default_rng(seed).random(3), share)
    assert (more >= fitted.probability(table, share) - 1e-12).all()
    assert NilCalibration.from_json(json.loads(json.dumps(fitted.to_json(), allow_nan=False))) == fitted


@pytest.mark.parametrize("share", SHARES[:-1])
def test_high_precision_and_high_recall_reach_what_they_aim_at(share: float):
    fitted = fit_nil(*sample(3000, gap=2.5))
    odds, _, outcome, weight = fitted.sample.columns(share)
    kept = odds >= fitted.threshold("high_precision", share)
    assert np.average(outcome[kept] == RIGHT, weights=weight[kept]) >= PRECISION
    right = outcome == RIGHT
    assert (odds[right] >= fitted.threshold("high_recall", share)).mean() >= RECALL


def test_high_precision_counts_no_answer_below_accuracy():
    odds = (*[-1.0] * 37, 1.0, 1.0, 2.0)
    outcome = (*[RIGHT] * 37, WRONG, WRONG, RIGHT)
    calibrated = fit_nil(*sample(100))
    calibrated = replace(calibrated, sample=Sample(odds, odds, outcome, (1 / 40,) * 40))
    assert calibrated.threshold("high_precision", 0.5) == 1.5
    assert calibrated.threshold("high_precision", 0.9) == calibrated.threshold("accuracy", 0.9) > 2
    right = replace(calibrated, sample=Sample((-3.0, 0.5), (-3.0, 0.5), (WRONG, RIGHT), (0.5, 0.5)))
    assert right.threshold("high_precision", 0.1) == right.threshold("accuracy", 0.1) < -2


def test_without_nil_mentions_nothing_is_nil_and_with_nothing_else_all_is():
    fitted = fit_nil(*sample(100))
    assert fitted.threshold("accuracy", 0.0) == -math.inf
    assert {fitted.threshold(point, 1.0) for point in ("accuracy", "high_precision")} == {math.inf}
    table = evidence([[0.9, 0.1], [-5.0, -5.0]])
    assert (fitted.probability(table, 1.0) == 0).all()
    assert fitted.probability(table, 0.0)[0] > fitted.probability(table, 0.1)[0]


@pytest.mark.parametrize(("kind", "lack"), [(RIGHT, "no NIL"), (NIL, "no right candidate")])
def test_nothing_to_tell_apart_is_an_error(kind: int, lack: str):
    with pytest.raises(InputError, match=lack):
        fit_nil(np.zeros((2, 3)), [kind, kind])


def test_absent_candidates_and_next_entities_have_a_probability():
    table, outcome = sample(200)
    table[(outcome != RIGHT) & (np.arange(200) % 7 == 0)] = -math.inf
    table[::5, 1:] = math.inf
    table[::35, 1:] = -math.inf
    fitted = fit_nil(table, outcome)
    assert np.isfinite(fitted.probability(table)).all()
    assert fitted.probability(evidence([[]])) == [0.0]
    table[:, 1:] = math.inf
    one_entity = fit_nil(np.nan_to_num(table, nan=0, neginf=-1, posinf=math.inf), outcome)
    assert one_entity.nil.weights[1:] == (0, 0)
    assert 0 < one_entity.probability(evidence([[0.8]]))[0] < 1


def test_where_none_was_wrong_some_may_be():
    table, outcome = sample(100)
    fitted = fit_nil(table[outcome != WRONG], outcome[outcome != WRONG])
    assert 0.9 < fitted.probability(np.full((1, 3), 99.0), 0.0)[0] < 1


def test_an_unknown_operating_point_names_the_known_ones():
    with pytest.raises(InputError, match=", ".join(OPERATING_POINTS)):
        fit_nil(*sample(50)).threshold("balanced")


def test_the_weights_of_a_sample_of_many_mentions_sum_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nil, "MOST_SAMPLES", 50)
    scores = [[1.0 + 0.01 * i, 0.5, 0.2] for i in range(200)]
    outcome = np.array([RIGHT, NIL, WRONG, RIGHT, NIL] * 40)
    sample = fit_nil(evidence(scores), outcome).sample
    weight, kept = np.array(sample.weight), np.array(sample.outcome)
    assert len(kept) == 50
    assert weight[kept == NIL].sum() == pytest.approx(1, abs=1e-6)
    assert weight[kept != NIL].sum() == pytest.approx(1, abs=1e-6)
