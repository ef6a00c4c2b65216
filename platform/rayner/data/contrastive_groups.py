"""The steps of an epoch over groups of names of entities, as a pure function (papers/002, section 3.3.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rayner.data.plans import Plan, group_codes, places_by, ranges


def plan(
    entities: Sequence[str] | np.ndarray,
    seed: int,
    epoch: int,
    group_size: int,
    groups_per_step: int,
    anchored: bool,
    neighbours: np.ndarray | None = None,
) -> Plan:
    """The steps of an epoch: each the indices of its examples, every one once.

    In each epoch anew, the examples of an entity are shuffled and cut into groups. Where `anchored`, a group
    holds the entity's name and up to `group_size - 1` of its other examples; otherwise the name is one of
    them. Groups are shuffled, and `groups_per_step` make a step; with `neighbours`, a group takes groups of
    its entity's neighbours into its step, as long as there are any left. The last step may have fewer; one
    that would have a single group joins the step before. Where all groups of the last step are then of one
    entity, one of them changes places with another entity's. All epochs have equally many steps.

    Args:
        entities: [N] the entity of each example, by name or as an array of integers from 0; its first example
            is its name.
        neighbours: [E, k] other entities, nearest first, of each; entities are numbered in the order of their
            first examples.
    """
    rng = np.random.default_rng([seed, epoch])
    codes = group_codes(entities)
    members, sizes = _members(codes, anchored, rng)
    begins = np.cumsum(sizes) - sizes
    # Examples of a group beside its anchor, and the entity's examples that groups are cut from.
    cut_size = group_size - 1 if anchored else group_size
    cut_from = np.where(sizes > 1, sizes - 1, 1) if anchored else sizes
    numbers = -(-cut_from // cut_size)
    entity = np.repeat(np.arange(len(sizes)), numbers)
    order = rng.permutation(len(entity))
    if neighbours is not None:
        order = _beside_neighbours(order, entity, neighbours, groups_per_step)
    step = _steps(entity, groups_per_step, order)
    first = np.repeat(np.cumsum(numbers) - numbers, cut_from)
    inside = ranges(np.zeros_like(cut_from), cut_from) // cut_size
    others = members[ranges(begins + sizes - cut_from, cut_from)]
    # Steps and indices as one number: two groups of an entity that meet share its name.
    count = len(codes)
    seen = step[first + inside] * count + others
    if anchored:
        seen = np.append(seen, step * count + members[begins[entity]])
    seen.sort()
    seen = seen[np.append(True, seen[1:] != seen[:-1])] if len(seen) else seen
    borders = np.searchsorted(seen, np.arange(step.max(initial=-1) + 2) * count)
    return Plan((seen % max(1, count)).astype(np.int32 if count < 2**31 else np.int64), borders)


def _members(codes: np.ndarray, anchored: bool, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The examples, by entity, shuffled but for the names where `anchored`; the number of each entity's."""
    sizes = np.bincount(codes)
    keys = codes
    if anchored:
        names = np.empty_like(sizes)
        names[codes[::-1]] = np.arange(len(codes))[::-1]
        keys = 2 * codes.astype(np.int64) + 1
        keys[names] -= 1
    shuffled = rng.permutation(len(codes))
    return shuffled[places_by(keys[shuffled])], sizes


def _beside_neighbours(
    order: np.ndarray, entity: np.ndarray, neighbours: np.ndarray, groups_per_step: int
) -> np.ndarray:
    """The groups, each step begun by the first one that is left and filled with neighbours of those in it."""
    # The groups of each entity in their order; those before `left` are taken.
    groups = order[places_by(entity[order])].tolist()
    ends = np.cumsum(np.bincount(entity, minlength=len(neighbours)))
    left, ends = np.append(0, ends[:-1]).tolist(), ends.tolist()
    taken = bytearray(len(order))
    found: list[int] = []
    for first in order.tolist():
        if taken[first]:
            continue
        taken[first] = True
        at = len(found)
        found.append(first)
        # Neighbours of the first group's entity, then theirs, until the step is full.
        while at < len(found) and len(found) % groups_per_step:
            for other in neighbours[entity[found[at]]].tolist():
                place, end = left[other], ends[other]
                while place < end and taken[groups[place]]:
                    place += 1
                if place < end:
                    taken[groups[place]] = True
                    found.append(groups[place])
                    place += 1
                left[other] = place
                if not len(found) % groups_per_step:
                    break
            at += 1
    return np.array(found, np.int64)


def _steps(entity: np.ndarray, groups_per_step: int, order: np.ndarray) -> np.ndarray:
    """The step of each group, of the groups in an order."""
    last = (len(order) - 1) // groups_per_step * groups_per_step
    if last and len(order) - last == 1:
        last -= groups_per_step
    of_last = entity[order[last:]]
    if last and (of_last == of_last[0]).all():
        others = np.flatnonzero(entity[order[:last]] != of_last[0])
        if len(others):
            order[[others[-1], last]] = order[[last, others[-1]]]
    step = np.empty_like(order)
    step[order] = np.minimum(np.arange(len(order)), last) // groups_per_step
    return step
