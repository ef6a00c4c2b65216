from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.batches import COST_OF_A_FORWARD, forwards, plan, share

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=60).map(np.array)


@given(LENGTHS, st.integers(1, 300), st.integers(0, 3))
def test_an_epoch_sees_each_example_once_and_keeps_the_budget(
    lengths: np.ndarray, budget: int, epoch: int
) -> None:
    steps = plan(lengths, None, 1, epoch, budget)
    assert sorted(np.concatenate(steps)) == list(range(len(lengths)))
    assert all(len(s) == 1 or lengths[s].max() * len(s) <= budget for s in steps)


@given(LENGTHS, st.integers(1, 300), st.integers(1, 5))
def test_workers_share_a_step_out(lengths: np.ndarray, budget: int, workers: int) -> None:
    for step in plan(lengths, None, 1, 0, budget):
        parts = [share(step, lengths, workers, rank) for rank in range(workers)]
        assert sorted(np.concatenate(parts)) == sorted(step)


def test_the_plan_depends_on_seed_and_epoch_only() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 500)
    first = plan(lengths, None, 1, 0, 512)
    assert all((a == b).all() for a, b in zip(first, plan(lengths, None, 1, 0, 512), strict=True))
    other = plan(lengths, None, 1, 1, 512)
    assert [sorted(s) for s in first] != [sorted(s) for s in other]


def test_groups_stay_together() -> None:
    groups = [None if i % 5 == 0 else f"g{i % 7}" for i in range(100)]
    steps = plan(np.full(100, 3), groups, 1, 0, 60)
    for group in set(groups) - {None}:
        members = {i for i, g in enumerate(groups) if g == group}
        assert sum(bool(members & set(s.tolist())) for s in steps) == 1


def test_single_sentences_are_padded_by_at_most_a_twentieth() -> None:
    lengths = np.random.default_rng(1).poisson(22, 3500) + 3
    for budget in (500, 1000, 2000):
        steps = plan(lengths, None, 1, 0, budget)
        padded = sum(lengths[s].max() * len(s) for s in steps)
        assert padded / lengths.sum() <= 1.05


@given(LENGTHS, st.integers(1, 200))
def test_forwards_keep_their_budget(lengths: np.ndarray, budget: int) -> None:
    parts = forwards(np.arange(len(lengths)), lengths, budget)
    assert sorted(np.concatenate(parts)) == list(range(len(lengths)))
    assert all(len(p) == 1 or lengths[p].max() * len(p) <= budget for p in parts)


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=7).map(np.array),
    st.integers(1, 40),
    st.sampled_from([0, 3, COST_OF_A_FORWARD, 128]),
)
def test_forwards_are_the_cheapest_cut_of_the_sorted_lengths(
    lengths: np.ndarray, budget: int, each: int
) -> None:
    def cost(cut: list[np.ndarray]) -> float:
        return sum(lengths[p].max() * len(p) + each for p in cut)

    order = np.argsort(lengths, kind="stable")
    borders = range(1, len(order))
    cuts = [np.split(order, chosen) for count in range(len(order)) for chosen in combinations(borders, count)]
    within = [c for c in cuts if all(len(p) == 1 or lengths[p].max() * len(p) <= budget for p in c)]
    found = forwards(np.arange(len(lengths)), lengths, budget, each)
    assert cost(found) == min(map(cost, within))


def test_forwards_of_sentences_are_padded_by_at_most_a_twentieth() -> None:
    lengths = np.random.default_rng(1).poisson(22, 365) + 3
    parts = forwards(np.arange(365), lengths, 2048)
    assert sum(lengths[p].max() * len(p) for p in parts) / lengths.sum() <= 1.05
    assert len(parts) <= 2.5 * lengths.sum() / 2048


def test_an_empty_share_makes_no_forward() -> None:
    assert forwards(np.array([], dtype=int), np.array([3]), 10) == []
    assert forwards(np.array([], dtype=int), np.array([3]), None) == []
