"""A plan is a sequence of steps over one array; groups and sorting are the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.plans import Plan, group_codes, places_by, ranges

SIZES = st.lists(st.integers(0, 4), max_size=12)


def plan_of(sizes: list[int]) -> tuple[Plan, list[list[int]]]:
    order = np.random.default_rng(0).permutation(sum(sizes)).astype(np.int32)
    borders = np.append(0, np.cumsum(np.array(sizes, int)))
    return Plan(order, borders), [s.tolist() for s in np.split(order, borders[1:-1])] if sizes else []


@given(SIZES, st.slices(12))
def test_a_plan_is_the_sequence_of_its_steps(sizes: list[int], part: slice) -> None:
    plan, steps = plan_of(sizes)
    assert len(plan) == len(steps)
    assert [step.tolist() for step in plan] == steps
    assert [plan[i].tolist() for i in range(-len(steps), len(steps))] == steps + steps
    if part.step in (None, 1):
        assert [step.tolist() for step in plan[part]] == steps[part]
        assert len(plan[part]) == len(steps[part])


def test_steps_are_views_and_what_is_outside_is_an_error() -> None:
    plan, _ = plan_of([2, 3])
    assert np.shares_memory(plan[1], plan.order)
    for outside in (2, -3):
        with pytest.raises(IndexError):
            plan[outside]
    with pytest.raises(ValueError, match="not by 2"):
        plan[::2]


@given(st.lists(st.integers(0, 9) | st.integers(0, 2**62), max_size=50))
def test_places_are_those_of_a_stable_sort(keys: list[int]) -> None:
    given_keys = np.array(keys, np.int64)
    assert (places_by(given_keys) == np.argsort(given_keys, kind="stable")).all()


@given(SIZES)
def test_ranges_follow_one_another(sizes: list[int]) -> None:
    begins = np.arange(len(sizes)) * 7
    expected = [b + i for b, size in zip(begins.tolist(), sizes, strict=True) for i in range(size)]
    assert ranges(begins, np.array(sizes, int)).tolist() == expected


@pytest.mark.parametrize(
    "groups",
    [
        ["b", None, "a", "b", None, "c"],
        np.array(["b", None, "a", "b", None, "c"], object),
        np.array([7, -1, 3, 7, -2, 5]),
        np.array([7, -1, 3, 7, -2, 5], np.int32),
    ],
)
def test_groups_are_numbered_as_they_occur(groups: np.ndarray) -> None:
    assert group_codes(groups).tolist() == [0, -1, 1, 0, -1, 2]


def test_no_groups_at_all() -> None:
    assert group_codes([None, None]).tolist() == [-1, -1]
    assert group_codes([]).tolist() == []
    assert group_codes(np.array(["x", "yy", "x"])).tolist() == [0, 1, 0]
