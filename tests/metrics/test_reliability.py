from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rayner.metrics.reliability import reliability, risk_coverage

N = 12


def test_bins_hold_equal_weight_and_the_error_is_their_mean_distance():
    probability = np.linspace(0, 1, 1000)
    right = np.random.default_rng(0).random(1000) < probability
    found = reliability(probability, right)
    assert found.weight == pytest.approx(np.full(10, 0.1), abs=0.002)
    assert found.error < 0.05
    assert reliability(probability**3, right).error == pytest.approx(0.25, abs=0.03)


def test_equal_probabilities_are_one_bin():
    found = reliability([0.8] * 5, [True, True, True, True, False])
    assert (len(found.weight), found.error) == (1, pytest.approx(0))
    assert reliability([1.0, 0.0], [True, False]).error == 0
    assert reliability([1.0, 0.0], [False, True]).error == 1


@given(
    arrays(np.float64, N, elements=st.integers(0, 32).map(lambda part: part / 32)),
    arrays(np.bool_, N),
    arrays(np.int64, N, elements=st.integers(0, 3)),
)
def test_weights_are_how_often_a_mention_counts(
    probability: np.ndarray, right: np.ndarray, often: np.ndarray
):
    often[0] = 1
    again = np.repeat(np.arange(N), often)
    weighted, repeated = reliability(probability, right, often), reliability(probability[again], right[again])
    assert weighted.weight.sum() == pytest.approx(1)
    np.testing.assert_allclose(weighted.predicted, repeated.predicted)
    assert weighted.error == pytest.approx(repeated.error)
    assert 0 <= weighted.error <= 1
    area = risk_coverage(probability, right, often).area
    assert area == pytest.approx(risk_coverage(2 * probability + 1, right, 3 * often).area)
    assert 0 <= area <= 1


@given(arrays(np.bool_, N, elements=st.booleans()), st.permutations(range(N)))
def test_the_area_is_the_mean_risk_over_coverages(right: np.ndarray, order: list[int]):
    confidence = np.empty(N)
    confidence[order] = np.arange(N, 0, -1)
    wrong = ~right[order]
    half = [(wrong[:i].sum() + wrong[i] / 2) / (i + 0.5) for i in range(N)]
    assert risk_coverage(confidence, right).area == pytest.approx(np.mean(half))
    best = risk_coverage(right.astype(float) + confidence / 100, right).area
    assert best <= risk_coverage(confidence, right).area + 1e-12


def test_without_any_order_the_area_is_the_share_that_is_wrong():
    assert risk_coverage(np.zeros(10), np.arange(10) < 7).area == pytest.approx(0.3)
    assert risk_coverage([-np.inf, 1.0, np.inf], [False, True, True]).area < 0.25


def test_the_curve_ends_where_all_is_answered():
    found = risk_coverage([0.9, 0.9, 0.5, 0.1], [True, False, True, False], [1, 1, 2, 0])
    assert found.coverage.tolist() == [0.5, 1]
    assert found.risk.tolist() == [0.5, 0.25]


def test_a_value_is_in_the_bin_where_the_middle_of_its_weight_lies():
    # Three quarters lie at 0.9, from 0.25 on: their middle is in the second half.
    found = reliability([0.1, 0.9, 0.9, 0.9], [False, True, True, True], bins=2)
    assert found.weight.tolist() == [0.25, 0.75]
