"""The steps of an epoch over groups of names of entities, as a pure function (papers/002, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def plan(
    entities: Sequence[str],
    seed: int,
    epoch: int,
    group_size: int,
    groups_per_step: int,
    anchored: bool,
) -> list[np.ndarray]:
    """The steps of an epoch: each the indices of its examples, every one once.

    In each epoch anew, the examples of an entity are shuffled and cut into groups. Where `anchored`, a group
    holds the entity's name and up to `group_size - 1` of its other examples; otherwise the name is one of
    them. Groups are shuffled, and `groups_per_step` make a step. The last step may have fewer; one that would
    have a single entity joins the step before.

    Args:
        entities: [N] the entity of each example; its first example is its name.
    """
    rng = np.random.default_rng([seed, epoch])
    groups = [group for members in _members(entities) for group in _cut(members, group_size, anchored, rng)]
    order = rng.permutation(len(groups))
    steps = [order[i : i + groups_per_step] for i in range(0, len(order), groups_per_step)]
    if len(steps) > 1 and len({entities[groups[i][0]] for i in steps[-1]}) == 1:
        steps[-2:] = [np.concatenate(steps[-2:])]
    # Two groups of an entity that meet share its name.
    return [np.unique(np.concatenate([groups[i] for i in step])) for step in steps]


def _members(entities: Sequence[str]) -> list[np.ndarray]:
    members: dict[str, list[int]] = {}
    for index, entity in enumerate(entities):
        members.setdefault(entity, []).append(index)
    return [np.array(indices) for indices in members.values()]


def _cut(members: np.ndarray, group_size: int, anchored: bool, rng: np.random.Generator) -> list[np.ndarray]:
    if not anchored or len(members) == 1:
        shuffled = rng.permutation(members)
        return [shuffled[i : i + group_size] for i in range(0, len(shuffled), group_size)]
    others, size = rng.permutation(members[1:]), group_size - 1
    return [np.concatenate([members[:1], others[i : i + size]]) for i in range(0, len(others), size)]
