"""Steps of stories, two at least; of long ones in stretches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.story_plans import STRETCHES, _places, alone, plan

LONGEST = 9 * 40
STORIES = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=9), min_size=2, max_size=40)


def flat(stories: list[list[int]], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths and stories of examples, which lie in any order."""
    lengths = np.array([length for story in stories for length in story])
    groups = np.repeat([f"s{i}" for i in range(len(stories))], [len(s) for s in stories]).astype(object)
    order = np.random.default_rng(seed).permutation(len(lengths))
    return lengths[order], groups[order]


def places_by_definition(rooms: list[int], budget: int) -> list[list[int]]:
    """The longest that is left, then the shortest that are left as long as they fit, one in any case."""
    steps: list[list[int]] = []
    short, long = 0, len(rooms) - 1
    while short <= long:
        step, total = [long], rooms[long]
        long -= 1
        while short <= long and (len(step) < 2 or total + rooms[short] <= budget):
            step.append(short)
            total += rooms[short]
            short += 1
        steps.append(step)
    if len(steps) > 1 and len(steps[-1]) == 1:
        before = steps[-2]
        if len(before) > 2:
            steps[-1].append(before.pop())
        else:
            before += steps.pop()
    return steps


@given(st.lists(st.integers(1, 60), min_size=1, max_size=60).map(sorted), st.integers(1, 400))
def test_places_are_those_of_their_definition(rooms: list[int], budget: int) -> None:
    places, ends = _places(np.array(rooms), budget)
    steps = [part.tolist() for part in np.split(places, ends[1:-1])]
    assert [(step[0], sorted(step[1:])) for step in steps] == [
        (step[0], sorted(step[1:])) for step in places_by_definition(rooms, budget)
    ]


@given(STORIES, st.integers(LONGEST, 800), st.integers(0, 3))
def test_every_step_holds_two_whole_stories(stories: list[list[int]], budget: int, seed: int) -> None:
    lengths, groups = flat(stories, seed)
    sizes = {name: int((groups == name).sum()) for name in set(groups)}
    counts = set()
    for epoch in range(3):
        steps = plan(lengths, groups, seed, epoch, budget)
        counts.add(len(steps))
        assert sorted(np.concatenate(list(steps))) == list(range(len(lengths)))
        for step in steps:
            inside = {name: int((groups[step] == name).sum()) for name in set(groups[step])}
            assert len(inside) >= 2
            assert all(sizes[name] == number for name, number in inside.items())
    assert len(counts) == 1


@given(STORIES, st.integers(LONGEST, 800))
def test_only_steps_of_two_stories_are_over_the_budget(stories: list[list[int]], budget: int) -> None:
    lengths, groups = flat(stories, 0)
    over = [s for s in plan(lengths, groups, 0, 1, budget) if lengths[s].sum() > budget]
    numbers = sorted(len(set(groups[step])) for step in over)
    assert numbers in ([2] * len(over), [2] * (len(over) - 1) + [3])


@given(STORIES, st.integers(1, LONGEST), st.integers(0, 3))
def test_of_stories_longer_than_a_step_every_window_is_read_once(
    stories: list[list[int]], budget: int, seed: int
) -> None:
    lengths, groups = flat(stories, seed)
    is_long = max(map(sum, stories)) > budget
    counts = set()
    for epoch in range(2):
        steps = plan(lengths, groups, seed, epoch, budget)
        counts.add(len(steps))
        assert sorted(np.concatenate(list(steps))) == list(range(len(lengths)))
        # Two windows of 40 are a step in any case.
        assert not is_long or max(lengths[step].sum() for step in steps) <= max(budget, 80)
        found = sum(len(set(groups[step])) == 1 for step in steps)
        assert alone(steps, groups) == found
    assert len(counts) == 1


def windows_of(*windows: int, length: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """Stories of so many windows."""
    return np.full(sum(windows), length), np.repeat(np.arange(len(windows)), windows)


@pytest.mark.parametrize(
    "windows",
    [
        [400, 300, 350, *[3] * 30],
        [400, *[1] * 600],
        [400, *[2] * 300],
        [300, *[1] * 700],
        [520, 480],
        [300, 300],
        [220, 50, 50, 50, 20],
        [45, *[1] * 55],
    ],
    ids=str,
)
@pytest.mark.parametrize("budget", [8192, 2048])
def test_no_novel_has_a_step_for_itself_where_the_others_suffice(windows: list[int], budget: int) -> None:
    lengths, groups = windows_of(*windows)
    for epoch in range(3):
        steps = plan(lengths, groups, 7, epoch, budget)
        assert alone(steps, groups) == 0
        assert max(lengths[step].sum() for step in steps) <= budget
        assert len(steps) <= np.ceil(1.1 * lengths.sum() / budget)


def test_a_stretch_is_of_windows_that_follow_each_other_and_epochs_mix_them_anew() -> None:
    lengths, groups = windows_of(400, 300, 350)
    beside = []
    for epoch in range(2):
        steps = list(plan(lengths, groups, 7, epoch, 8192))
        # Up to four stretches of four windows, so up to three places in a step where no window follows.
        assert max(int((np.diff(np.sort(step)) > 1).sum()) for step in steps) <= STRETCHES - 1
        beside.append({frozenset(step.tolist()) for step in steps})
    assert not beside[0] & beside[1]


def test_stretches_fill_a_step_however_long_the_windows_are() -> None:
    rng = np.random.default_rng(0)
    for shortest in (300, 384, 511):
        lengths, groups = windows_of(*[300] * 10)
        lengths = rng.integers(shortest, 512, len(lengths))
        steps = plan(lengths, groups, 0, 0, 8192)
        assert len(steps) < 1.25 * lengths.sum() / 8192


def test_a_novel_that_is_nearly_all_has_steps_for_itself() -> None:
    lengths, groups = windows_of(4000, 40)
    steps = plan(lengths, groups, 7, 0, 8192)
    # Each of ten stretches of the other one is beside it.
    assert alone(steps, groups) == len(steps) - 10


def test_epochs_pair_stories_anew() -> None:
    lengths, groups = flat([[10]] * 40, 0)
    pairs = [{frozenset(groups[s]) for s in plan(lengths, groups, 1, epoch, 20)} for epoch in (0, 1)]
    assert all(len(pair) == 2 for found in pairs for pair in found)
    assert len(pairs[0] & pairs[1]) < 10


def test_without_groups_each_example_is_a_story() -> None:
    steps = plan(np.full(9, 5), None, 0, 0, 10)
    assert sorted(map(len, steps)) == [2, 2, 2, 3]


def test_a_corpus_of_one_story_has_one_step() -> None:
    steps = plan(np.array([3, 4]), np.array(["a", "a"], object), 0, 0, 7)
    assert [sorted(s) for s in steps] == [[0, 1]]
