"""Batches of an epoch as a pure function of lengths, groups and a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

COST_OF_A_FORWARD = 32
"""What a forward pass costs beside its own, in tokens: sentences pass fastest with it on a core."""
TOKENS_PER_BATCH = 2048
"""Padded tokens of a batch in prediction: memory against speed."""


def plan(
    lengths: np.ndarray, groups: Sequence[str | None] | None, seed: int, epoch: int, budget: int
) -> list[np.ndarray]:
    """The steps of an epoch: each the indices of its examples, all workers' together.

    Examples of a group stand in one step. Steps hold examples of about equal length, so that
    `longest x number <= budget` with little padding; their order is random. A unit (an example or a group)
    that is over the budget by itself makes a step of its own.

    Args:
        lengths: [N] tokens of each example.
        groups: [N] names of groups, None for an example that stands alone; or None for no groups at all.
        budget: padded tokens a step.
    """
    rng = np.random.default_rng([seed, epoch])
    units = _units(groups, len(lengths))
    longest = np.array([lengths[unit].max() for unit in units])
    # Noise breaks ties and mixes neighbouring lengths, so that an example meets others in each epoch.
    order = np.argsort(longest * rng.uniform(0.95, 1.05, len(units)), kind="stable")
    steps: list[list[np.ndarray]] = []
    width = rows = 0
    for index in order:
        unit = units[index]
        new_width = max(width, int(longest[index]))
        if not steps or new_width * (rows + len(unit)) > budget:
            steps.append([])
            new_width, rows = int(longest[index]), 0
        steps[-1].append(unit)
        width, rows = new_width, rows + len(unit)
    return [np.concatenate(steps[i]) for i in rng.permutation(len(steps))]


def share(step: np.ndarray, lengths: np.ndarray, workers: int, rank: int) -> np.ndarray:
    """A worker's part of a step, of about equal tokens; empty for some if examples are fewer than workers."""
    order = step[np.argsort(lengths[step], kind="stable")]
    ends = np.cumsum(lengths[order])
    middle = ends - lengths[order] / 2
    return order[(middle * workers // ends[-1]).astype(int) == rank]


def forwards(
    indices: np.ndarray, lengths: np.ndarray, budget: int | None, cost: int = COST_OF_A_FORWARD
) -> list[np.ndarray]:
    """Parts of `indices` of at most `budget` padded tokens each, by length.

    Where they are cut costs the least, each part counting its padded tokens and `cost` more. An
    example over the budget makes a part of its own.
    """
    if budget is None or not len(indices):
        return [indices] if len(indices) else []
    order = indices[np.argsort(lengths[indices], kind="stable")]
    widths = np.maximum(1, lengths[order])
    earliest = np.maximum(0, np.arange(1, len(order) + 1) - np.maximum(1, budget // widths))
    least, begins = np.zeros(len(order) + 1), np.zeros(len(order), dtype=int)
    for last, (width, first) in enumerate(zip(widths, earliest, strict=True)):
        from_each = least[first : last + 1] + width * np.arange(last + 1 - first, 0, -1)
        begins[last] = first + from_each.argmin()
        least[last + 1] = from_each[begins[last] - first] + cost
    borders = []
    last = len(order) - 1
    while begins[last]:
        borders.append(begins[last])
        last = begins[last] - 1
    return np.split(order, borders[::-1])


def _units(groups: Sequence[str | None] | None, count: int) -> list[np.ndarray]:
    if groups is None:
        return list(np.arange(count)[:, None])
    members: dict[str, list[int]] = {}
    alone = []
    for index, group in enumerate(groups):
        if group is None:
            alone.append(np.array([index]))
        else:
            members.setdefault(group, []).append(index)
    return alone + [np.array(group) for group in members.values()]
