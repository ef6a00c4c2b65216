"""Steps of groups: whatever the entities, every string once, and no group cut in two."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.contrastive_groups import _beside_neighbours, plan

sizes = st.lists(st.integers(1, 25), min_size=2, max_size=12)
shapes = st.tuples(st.integers(2, 6), st.integers(2, 5), st.booleans())


def entities_of(counts: list[int]) -> list[str]:
    return [str(number) for number, count in enumerate(counts) for _ in range(count)]


@given(sizes, shapes, st.integers(0, 5))
def test_every_string_is_seen_and_groups_keep_their_size(
    counts: list[int], shape: tuple[int, int, bool], epoch: int
) -> None:
    group_size, groups_per_step, anchored = shape
    entities = entities_of(counts)
    names = {entities.index(entity) for entity in entities}
    steps = plan(entities, 1, epoch, group_size, groups_per_step, anchored)
    seen = Counter(int(i) for step in steps for i in step)
    assert set(seen) == set(range(len(entities)))
    # Only a name, as the anchor of several groups, is seen more than once, and never twice in a step.
    assert all(count == 1 for i, count in seen.items() if not (anchored and i in names))
    assert all(len(set(step.tolist())) == len(step) for step in steps)
    for step in steps:
        of = Counter(entities[i] for i in step)
        # The last step may have taken in the step after it.
        assert len(step) <= 2 * group_size * groups_per_step
        if anchored:
            assert all(entities.index(entity) in step for entity in of)


@given(sizes, shapes)
def test_a_plan_is_a_function_of_seed_and_epoch(counts: list[int], shape: tuple[int, int, bool]) -> None:
    entities = entities_of(counts)
    once, again = (plan(entities, 7, 3, *shape) for _ in range(2))
    assert [step.tolist() for step in once] == [step.tolist() for step in again]


@given(st.lists(st.integers(1, 25), min_size=1, max_size=6), shapes)
def test_all_epochs_have_equally_many_steps_and_none_ends_with_a_single_entity(
    counts: list[int], shape: tuple[int, int, bool]
) -> None:
    entities = entities_of(counts)
    plans = [plan(entities, 1, epoch, *shape) for epoch in range(8)]
    assert len(set(map(len, plans))) == 1
    assert len(counts) == 1 or all(len({entities[i] for i in steps[-1]}) > 1 for steps in plans)


@given(sizes, shapes, st.integers(0, 5), st.data())
def test_neighbours_change_the_order_of_groups_alone(
    counts: list[int], shape: tuple[int, int, bool], epoch: int, data: st.DataObject
) -> None:
    entities = entities_of(counts)
    table = [
        data.draw(st.permutations([e for e in range(len(counts)) if e != own]))[:3]
        for own in range(len(counts))
    ]
    plain = plan(entities, 1, epoch, *shape)
    beside = plan(entities, 1, epoch, *shape, np.array(table))
    assert len(plain) == len(beside)
    assert set(beside.order.tolist()) == set(range(len(entities)))
    assert all(len(set(step.tolist())) == len(step) for step in beside)
    again = plan(entities, 1, epoch, *shape, np.array(table))
    assert [step.tolist() for step in beside] == [step.tolist() for step in again]
    names = {entities.index(entity) for entity in entities}
    seen = Counter(int(i) for step in beside for i in step)
    assert all(count == 1 for i, count in seen.items() if not (shape[2] and i in names))


def test_neighbours_share_a_step_and_their_neighbours_fill_it() -> None:
    entities = entities_of([3] * 12)
    partner = np.arange(12)[:, None] ^ 1
    for epoch in range(3):
        steps = plan(entities, 1, epoch, 4, 2, True, partner)
        assert sorted(sorted({int(entities[i]) for i in step}) for step in steps) == [
            [e, e + 1] for e in range(0, 12, 2)
        ]
    ring = (np.arange(12)[:, None] // 4) * 4 + (np.arange(12)[:, None] + 1) % 4
    for step in plan(entities, 1, 0, 4, 4, True, ring):
        assert len({int(entities[i]) // 4 for i in step}) == 1
    assert {len(step) for step in plan(entities, 1, 0, 4, 4, True, ring)} == {12}


def test_numbers_of_entities_do_for_their_names() -> None:
    entities = entities_of([7, 1, 12, 30])
    named, numbered = plan(entities, 1, 2, 5, 3, True), plan(np.array(entities, int), 1, 2, 5, 3, True)
    assert [step.tolist() for step in named] == [step.tolist() for step in numbered]


def test_a_last_step_of_one_entity_joins_the_step_before() -> None:
    entities = entities_of([2, 2, 2, 2, 2])
    assert [len(step) for step in plan(entities, 1, 0, 2, 4, True)] == [10]
    assert sorted(len(step) for step in plan(entities, 1, 0, 2, 3, True)) == [4, 6]


def test_epochs_cut_groups_anew() -> None:
    entities = entities_of([30] * 4)
    first, second = (plan(entities, 1, epoch, 10, 2, True) for epoch in (0, 1))
    assert [step.tolist() for step in first] != [step.tolist() for step in second]


def test_groups_are_of_one_entity_and_as_many_as_a_step_holds() -> None:
    # 28 strings beside the name make 4 groups of at most 9 and a name: papers/002's 10 and 16, scaled down.
    steps = plan(entities_of([29] * 3), 1, 0, 10, 4, True)
    assert len(steps) == 3
    assert sum(len(np.unique(step)) for step in steps) >= 3 * 28 + 3


@given(st.integers(2, 9))
def test_an_entity_with_one_string_is_a_group_of_its_own(count: int) -> None:
    steps = plan(entities_of([1] * count), 1, 0, 10, 16, True)
    assert [len(step) for step in steps] == [count]


def beside_by_definition(order: list[int], entity: list[int], near: list[list[int]], size: int) -> list[int]:
    left: dict[int, list[int]] = {}
    for group in order:
        left.setdefault(entity[group], []).append(group)
    found: list[int] = []
    for first in order:
        if first in found:
            continue
        at = len(found)
        found.append(first)
        while at < len(found) and len(found) % size:
            for other in near[entity[found[at]]]:
                waiting = [group for group in left[other] if group not in found]
                if waiting and len(found) % size:
                    found.append(waiting[0])
            at += 1
    return found


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 12))
def test_groups_beside_neighbours_are_those_of_the_definition(seed: int, size: int, entities: int) -> None:
    rng = np.random.default_rng(seed)
    entity = np.append(np.arange(entities), rng.integers(0, entities, 15))
    entity.sort()
    near = rng.integers(0, entities, (entities, 3))
    order = rng.permutation(len(entity))
    found = _beside_neighbours(order, entity, near, size)
    assert found.tolist() == beside_by_definition(order.tolist(), entity.tolist(), near.tolist(), size)
