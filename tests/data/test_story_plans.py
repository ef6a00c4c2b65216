"""Steps of stories, two at least; of long ones in stretches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.story_plans import _places, plan

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
    short = {f"s{i}" for i, story in enumerate(stories) if sum(story) <= budget}
    counts = set()
    for epoch in range(2):
        steps = plan(lengths, groups, seed, epoch, budget)
        counts.add(len(steps))
        assert sorted(np.concatenate(list(steps))) == list(range(len(lengths)))
        told = [name for step in steps for name in set(groups[step])]
        assert all(told.count(name) == 1 for name in short)
    assert len(counts) == 1


def novels(*windows: int) -> tuple[np.ndarray, np.ndarray]:
    """Two or more of windows of 100 tokens, and thirty stories of three such windows."""
    groups = np.repeat([f"s{i}" for i in range(len(windows) + 30)], [*windows, *[3] * 30]).astype(object)
    return np.full(len(groups), 100), groups


def test_novels_come_in_stretches_beside_other_stories_and_within_the_budget() -> None:
    lengths, groups = novels(400, 300, 350)
    beside: list[set[frozenset[str]]] = []
    for epoch in range(3):
        steps = list(plan(lengths, groups, 7, epoch, 2000))
        assert all(len(set(groups[step])) > 1 for step in steps)
        assert max(lengths[step].sum() for step in steps) <= 2000
        assert len(steps) < 1.5 * lengths.sum() / 2000
        for step in steps:
            windows = np.sort(step[groups[step] == "s0"])
            # A stretch is of windows that follow each other.
            assert (np.diff(windows) > 1).sum() < max(len(windows), 1) / 4
        beside.append({frozenset(groups[step]) for step in steps})
    assert beside[0] != beside[1]


def test_steps_of_one_story_alone_are_those_that_no_other_story_is_left_for() -> None:
    lengths, groups = novels(4000, 40)
    steps = list(plan(lengths, groups, 7, 0, 2000))
    others = [step for step in steps if len(set(groups[step])) > 1]
    # Eight stretches of the other novel, and thirty stories that are shorter.
    assert len(others) >= 8
    assert sorted(np.concatenate(steps)) == list(range(len(lengths)))


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
