from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rayner.data.batches import COST_OF_A_FORWARD, forwards, plan, share

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=60).map(np.array)
GROUPED = st.lists(st.tuples(st.integers(1, 200), st.integers(-3, 6)), max_size=60)


@given(LENGTHS, st.integers(1, 300), st.integers(0, 3))
def test_an_epoch_sees_each_example_once_and_keeps_the_budget(
    lengths: np.ndarray, budget: int, epoch: int
) -> None:
    steps = plan(lengths, None, 1, epoch, budget)
    assert sorted(np.concatenate(steps)) == list(range(len(lengths)))
    assert all(len(s) == 1 or lengths[s].max() * len(s) <= budget for s in steps)


@given(GROUPED, st.integers(1, 3000), st.integers(0, 3))
def test_a_step_holds_whole_groups_within_the_budget(
    drawn: list[tuple[int, int]], budget: int, epoch: int
) -> None:
    lengths = np.array([length for length, _ in drawn], int)
    groups = np.array([max(-1, group) for _, group in drawn], int)
    steps = plan(lengths, groups, 1, epoch, budget)
    assert sorted(i for s in steps for i in s) == list(range(len(drawn)))
    for step in steps:
        units = {int(groups[i]) if groups[i] >= 0 else f"alone {i}" for i in step}
        assert len(units) == 1 or lengths[step].max() * len(step) <= budget
    held = [set(groups[s]) - {-1} for s in steps]
    assert sum(map(len, held)) == len(set(groups) - {-1})


@given(GROUPED, st.integers(1, 3000))
def test_all_epochs_have_equally_many_steps(drawn: list[tuple[int, int]], budget: int) -> None:
    lengths = np.array([length for length, _ in drawn], int)
    groups = np.array([group for _, group in drawn], int)
    for given_groups in (None, groups):
        assert len({len(plan(lengths, given_groups, 7, epoch, budget)) for epoch in range(5)}) == 1


@given(GROUPED)
def test_groups_may_be_names_or_any_numbers(drawn: list[tuple[int, int]]) -> None:
    lengths = np.array([length for length, _ in drawn], np.int32)
    codes = np.array([group for _, group in drawn], int)
    names = [None if group < 0 else f"g{group}" for _, group in drawn]
    of_names, of_codes, of_others = (
        plan(lengths, groups, 1, 2, 300) for groups in (names, codes, np.where(codes < 0, -9, 50 - codes))
    )
    assert [s.tolist() for s in of_names] == [s.tolist() for s in of_codes] == [s.tolist() for s in of_others]
    alone = plan(lengths, [None] * len(drawn), 1, 2, 300)
    assert [s.tolist() for s in alone] == [s.tolist() for s in plan(lengths, None, 1, 2, 300)]


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


def test_an_example_has_other_neighbours_in_each_epoch() -> None:
    lengths = np.random.default_rng(1).poisson(22, 3500) + 3
    step_of = np.empty((2, 3500), int)
    for epoch in range(2):
        for number, step in enumerate(plan(lengths, None, 1, epoch, 1000)):
            step_of[epoch, step] = number
    together = step_of[:, :, None] == step_of[:, None]
    first = together[0].sum() - 3500
    assert (together.all(0).sum() - 3500) / first < 0.2


def test_equal_lengths_fill_their_steps() -> None:
    steps = plan(np.full(100, 256), None, 1, 0, 2048)
    assert sorted(map(len, steps)) == [4] + [8] * 12


def test_a_group_over_the_budget_makes_a_step_of_its_own() -> None:
    groups = np.array([0] * 40 + [-1] * 10)
    steps = plan(np.full(50, 10), groups, 1, 0, 100)
    assert list(range(40)) in [sorted(step) for step in steps]


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


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=10).map(np.array),
    st.integers(1, 7),
    st.sampled_from([0, 1, 5]),
)
def test_full_forwards_within_a_run_of_one_length_are_the_cheapest_too(
    lengths: np.ndarray, budget: int, each: int
) -> None:
    order = np.sort(lengths)
    costs = {0: 0}
    for end in range(1, len(order) + 1):
        fit = [b for b in range(end) if b == end - 1 or order[end - 1] * (end - b) <= budget]
        costs[end] = min(costs[b] + order[end - 1] * (end - b) + each for b in fit)
    parts = forwards(np.arange(len(lengths)), lengths, budget, each)
    assert sorted(np.concatenate(parts)) == list(range(len(lengths)))
    assert sum(lengths[p].max() * len(p) + each for p in parts) == costs[len(order)]


def test_forwards_of_sentences_are_padded_by_at_most_a_twentieth() -> None:
    lengths = np.random.default_rng(1).poisson(22, 365) + 3
    parts = forwards(np.arange(365), lengths, 2048)
    assert sum(lengths[p].max() * len(p) for p in parts) / lengths.sum() <= 1.05
    assert len(parts) <= 2.5 * lengths.sum() / 2048


def test_an_empty_share_makes_no_forward() -> None:
    assert forwards(np.array([], dtype=int), np.array([3]), 10) == []
    assert forwards(np.array([], dtype=int), np.array([3]), None) == []
