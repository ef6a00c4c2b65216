from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from rayner.errors import InputError
from rayner.metrics.nil import OPERATING_POINTS, PRECISION, RECALL, NilCalibration, fit_nil


def sample(n: int = 2000, seed: int = 0, gap: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    right = rng.random(n) < 0.6
    return rng.normal(0.5 + gap * right, 0.15), np.abs(rng.normal(0.05 + gap * right / 2, 0.1)), right


def kept(fitted: NilCalibration, point: str, score: np.ndarray, margin: np.ndarray) -> np.ndarray:
    return fitted.probability(score, margin) >= fitted.threshold(point)


def test_probabilities_are_those_of_scikit_learn_and_are_calibrated():
    score, margin, right = sample()
    fitted = fit_nil(score, margin, right)
    table = StandardScaler().fit_transform(np.stack([score, margin], -1))
    expected = LogisticRegression().fit(table, right).predict_proba(table)[:, 1]
    got = fitted.probability(score, margin)
    np.testing.assert_allclose(got, expected, atol=1e-9)
    for low in (0.1, 0.3, 0.5, 0.7):
        near = (got >= low) & (got < low + 0.2)
        assert abs(right[near].mean() - got[near].mean()) < 0.1


def test_thresholds_are_the_best_of_all_cuts():
    score, margin, right = sample(300)
    fitted = fit_nil(score, margin, right)
    probability = fitted.probability(score, margin)

    def quality(threshold: float) -> tuple[float, float, float]:
        kept = probability >= threshold
        precision = right[kept].mean() if kept.any() else 1.0
        return (kept[right].mean() + (~kept[~right]).mean()) / 2, precision, kept[right].mean()

    cuts = [0.0, *probability]
    balanced, precise, complete = (quality(fitted.threshold(p)) for p in OPERATING_POINTS)
    assert balanced[0] == pytest.approx(max(quality(t)[0] for t in cuts))
    assert precise[1] >= PRECISION
    assert precise[2] == max(
        quality(t)[2] for t in cuts if quality(t)[1] >= PRECISION and t >= fitted.threshold("balanced")
    )
    assert complete[2] >= RECALL
    lower = [quality(t) for t in cuts if t <= fitted.threshold("balanced")]
    assert complete[2] == min(q[2] for q in lower if q[2] >= RECALL)


@given(st.integers(0, 10_000), st.floats(-0.5, 0.8), st.integers(2, 60))
def test_points_are_in_order_and_survive_json(seed: int, gap: float, n: int):
    score, margin, right = sample(n, seed, gap)
    right[:2] = [True, False]
    fitted = fit_nil(score, margin, right)
    thresholds = [fitted.threshold(p) for p in ("high_recall", "balanced", "high_precision")]
    assert thresholds == sorted(thresholds)
    assert kept(fitted, "high_recall", score, margin)[right].mean() >= RECALL
    again = NilCalibration.from_json(json.loads(json.dumps(fitted.to_json())))
    assert again == fitted


@pytest.mark.parametrize("right", [True, False])
def test_nothing_to_tell_apart_is_an_error(right: bool):
    lack = "no wrong candidate" if right else "no right candidate"
    with pytest.raises(InputError, match=lack):
        fit_nil([0.5, 0.6], [0.1, 0.2], [right, right])


def test_absent_candidates_and_next_entities_have_a_probability():
    score, margin, right = sample(200)
    score[~right & (np.arange(200) % 7 == 0)] = -math.inf
    margin[::5] = math.inf
    fitted = fit_nil(score, margin, right)
    assert np.isfinite(fitted.probability(score, margin)).all()
    assert fitted.probability([-math.inf], [math.inf]) == [0.0]
    one_entity = fit_nil(score, np.full(200, math.inf), right)
    assert one_entity.weights[1] == pytest.approx(0)
    assert 0 < one_entity.probability([0.8], [math.inf])[0] < 1


def test_an_unknown_operating_point_names_the_known_ones():
    with pytest.raises(InputError, match="balanced, high_precision, high_recall"):
        fit_nil(*sample(50)).threshold("precise")
