from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.metrics.thresholds import (
    HALF_WAY,
    CandidateSpans,
    best_shift,
    best_shifts,
    candidates_from_columns,
    cautious_shifts,
    threshold_curve,
)

SHIFTS = np.array([-1.0, 0.0, 0.25, 1.0])


def candidates(margins, gold, support=None) -> CandidateSpans:
    return CandidateSpans(np.array(margins, float), np.array(gold, bool), support)


def f1_at(one: CandidateSpans, shift: float) -> float:
    predicted = one.margins > shift
    return 2 * (predicted & one.gold).sum() / max(1, predicted.sum() + one.positives)


some_candidates = st.lists(
    st.tuples(st.integers(-8, 8).map(lambda m: m / 4), st.booleans()), max_size=12
).map(lambda rows: candidates([m for m, _ in rows], [g for _, g in rows], sum(g for _, g in rows) + 1))


def test_curve_by_hand():
    one = candidates([-0.5, 0.25, 0.5, 0.75], [True, False, True, True], support=4)
    curve = threshold_curve({"PER": one}, SHIFTS)
    assert curve["precision"] == pytest.approx([3 / 4, 2 / 3, 1, 0])
    assert curve["recall"] == pytest.approx([3 / 4, 2 / 4, 2 / 4, 0])
    assert curve["f1"] == pytest.approx([3 / 4, 4 / 7, 2 / 3, 0])


def test_the_curve_of_two_types_is_micro():
    pair = {"A": candidates([1, 2], [True, False]), "B": candidates([3], [True], support=2)}
    curve = threshold_curve(pair, np.zeros(1))
    assert (curve["precision"][0], curve["recall"][0]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))


@given(some_candidates)
def test_the_best_shift_is_the_best_of_all_shifts(one):
    best = best_shift(one)
    assert best["f1"] == pytest.approx(f1_at(one, best["shift"]))
    tried = np.linspace(-3, 3, 97)
    values = np.array([f1_at(one, shift) for shift in tried])
    assert best["f1"] >= values.max() - 1e-12
    if f1_at(one, 0.0) == pytest.approx(best["f1"]):
        assert best["shift"] == 0


def test_a_threshold_without_evidence_stays():
    assert best_shift(candidates([], []))["shift"] == 0
    assert best_shift(candidates([0.5, -0.5], [False, False]))["shift"] == 0
    assert best_shift(candidates([0.5, -0.5], [True, False]))["shift"] == 0


def test_the_cut_lies_in_the_middle_of_the_gap():
    assert best_shift(candidates([-0.1, -0.3, -0.5], [True, True, False]))["shift"] == pytest.approx(-0.4)
    assert best_shift(candidates([-2.0], [True]))["shift"] == -2.5


def test_columns_are_split_by_type():
    columns = (["B", "A", "B"], [0.1, -0.2, 0.3], [True, True, False])
    split = candidates_from_columns(*columns, support={"B": 5, "C": 2})
    assert list(split) == ["A", "B", "C"]
    assert split["B"].margins.tolist() == [0.1, 0.3]
    assert [one.positives for one in split.values()] == [1, 5, 2]
    assert best_shifts(split)["A"]["f1"] == 1
    assert candidates_from_columns([], [], []) == {}
    assert threshold_curve({}, SHIFTS)["f1"].tolist() == [0, 0, 0, 0]


def test_a_cautious_shift_is_the_smaller_the_fewer_mentions_it_rests_on():
    def shift(copies: int) -> float:
        one = candidates([-0.5, -0.25, 0.5] * copies, [True, True, True] * copies)
        return cautious_shifts({"A": one}, -4)["A"]

    best = best_shift(candidates([-0.5, -0.25, 0.5], [True, True, True]))["shift"]
    assert best < -0.5
    assert [shift(copies) for copies in (1, 10, 1000)] == pytest.approx(
        [best * n / (n + HALF_WAY) for n in (3, 30, 3000)], abs=1e-6
    )


def test_types_that_tell_nothing_stay():
    still = {
        "right as it is": candidates([0.5, -0.5], [True, False]),
        "without a mention": candidates([0.5, 0.25], [False, False]),
        "without a candidate": candidates([], [], support=9),
    }
    assert cautious_shifts(still, -4) == {}


def test_no_shift_goes_below_what_is_known():
    one = candidates([-3.9, -0.1] * 40, [True, True] * 40)
    assert cautious_shifts({"A": one}, -4)["A"] == pytest.approx(-4 * 80 / (80 + HALF_WAY))
