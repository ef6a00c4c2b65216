"""Batches of an epoch as a pure function of lengths, groups and a seed."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from rayner.data.plans import Plan, group_codes, places_by, ranges, rounded_up, units_of

COST_OF_A_FORWARD = 32
"""What a forward pass costs beside its own, in tokens: sentences pass fastest with it on a core."""
TOKENS_PER_BATCH, TOKENS_PER_BATCH_ON_GPU = 2048, 16_384
"""Padded tokens of a batch in prediction: memory against speed, and a GPU wants large batches."""

_SPREAD = 14
"""Lengths are mixed with those of up to 1 / 14 more: neighbours vary, and padding stays below a twentieth."""
_DRAWS = 2**16


def tokens_per_batch(device: Any) -> int:
    """Padded tokens of a batch in prediction on a device, or one that is named (`cuda:0`)."""
    return TOKENS_PER_BATCH_ON_GPU if str(device).startswith("cuda") else TOKENS_PER_BATCH


def tokens_per_batch_of(model: Any) -> int:
    """As `tokens_per_batch`, where a model's parameters are."""
    return tokens_per_batch(next(model.parameters()).device)


def plan(
    lengths: np.ndarray,
    groups: Sequence[str | None] | np.ndarray | None,
    seed: int,
    epoch: int,
    budget: int,
) -> Plan:
    """The steps of an epoch: each the indices of its examples, all workers' together.

    Examples of a group stand in one step. Steps hold examples of about equal length, so that
    `longest x number <= budget` with little padding; their order is random. A unit (an example or a group)
    that is over the budget by itself makes a step of its own.

    All epochs have equally many steps. Places for the units are laid out once, each with room for a unit that
    is up to 1 / 14 longer than its own; an epoch deals the units out over the places anew.

    Args:
        lengths: [N] tokens of each example.
        groups: [N] names of groups, None for an example that is alone; or an array of integers, negative
            for such an example; or None for no groups at all.
        budget: padded tokens a step.
    """
    rng = np.random.default_rng([seed, epoch])
    lengths = np.maximum(lengths, 1).astype(np.int64)
    codes = None if groups is None else group_codes(groups)
    if codes is None or (codes < 0).all():
        borders = _borders(np.sort(lengths), np.ones(1, np.int64), budget)
        return _shuffled(places_by(_mixed(lengths, rng)), borders, rng)
    members, sizes = units_of(codes)
    members = _small(members)
    begins = np.cumsum(sizes) - sizes
    longest = np.maximum.reduceat(lengths[members], begins)
    del lengths, codes  # 10^7 examples are planned within 1 GB
    dealt = _dealt(longest, sizes, budget, seed, rng)
    begins, sizes = begins[dealt.order], sizes[dealt.order]
    ends = np.append(0, np.cumsum(sizes))
    return Plan(members[ranges(begins, sizes)], ends[dealt.borders])


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
    widths, counts = np.unique(np.maximum(1, lengths[order]), return_counts=True)
    room = np.maximum(1, budget // widths)
    # A cut within a run of one width may move right at no cost until its part is full or the run ends: all
    # but the ends of a long run are full parts. Cuts are sought without these.
    full = np.clip(-(-(counts - 2 * room + 2) // room), 0, np.maximum(0, (counts - room) // room))
    left = counts - full * room
    borders = _cheapest_borders(np.repeat(widths, left), np.repeat(room, left), cost)
    places = np.searchsorted(borders, np.cumsum(left) - left)
    sizes = np.insert(np.diff(borders), np.repeat(places, full), np.repeat(room, full))
    return np.split(order, np.cumsum(sizes)[:-1])


def _cheapest_borders(widths: np.ndarray, room: np.ndarray, cost: int) -> np.ndarray:
    """From 0 to N, of the cheapest parts of N rows; `room`: most rows of a part that ends with each row."""
    earliest = np.maximum(0, np.arange(1, len(widths) + 1) - room)
    least, begins = np.zeros(len(widths) + 1), np.zeros(len(widths), dtype=int)
    for last, (width, first) in enumerate(zip(widths, earliest, strict=True)):
        from_each = least[first : last + 1] + width * np.arange(last + 1 - first, 0, -1)
        begins[last] = first + from_each.argmin()
        least[last + 1] = from_each[begins[last] - first] + cost
    borders = [len(widths)]
    while borders[-1]:
        borders.append(begins[borders[-1] - 1])
    return np.array(borders[::-1])


def _dealt(longest: np.ndarray, sizes: np.ndarray, budget: int, seed: int, rng: np.random.Generator) -> Plan:
    """A plan of units of so many examples, the longest of which are so long; both [U]."""
    rows = rounded_up(sizes, 4)
    kind = np.searchsorted(np.unique(rows), rows)
    # Units of one length lie in any order of their sizes, which is that of every epoch.
    laid_out = places_by(longest * _DRAWS + np.random.default_rng(seed).integers(_DRAWS, size=len(sizes)))
    borders = _borders(longest[laid_out], rows[laid_out], budget)
    mixed = _mixed(longest, rng)
    order = np.empty_like(laid_out)
    order[places_by(kind[laid_out])] = places_by(kind * (mixed.max() + 1) + mixed)
    return _shuffled(order, borders, rng)


def _mixed(lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Keys to sort lengths by, each raised by up to 1 / 14: integers, so that all machines find one order."""
    return lengths * (_SPREAD * _DRAWS + rng.integers(_DRAWS, size=len(lengths)))


def _borders(lengths: np.ndarray, rows: np.ndarray, budget: int) -> np.ndarray:
    """[S + 1] where steps begin and end among places of units with ascending lengths and so many rows.

    Sorted by keys that are raised by up to 1 / 14, the k-th unit of a class is at most 1 / 14 longer than the
    k-th shortest: its key is at most the k-th smallest, which is at most the raised key of the k-th shortest.
    A step ends where, for some keys, one place more would be over the budget.
    """
    reach = lengths * (_SPREAD * _DRAWS + _DRAWS - 1) // (_SPREAD * _DRAWS)
    room = budget // lengths[np.searchsorted(lengths, reach, side="right") - 1]
    ends = np.cumsum(np.broadcast_to(rows, lengths.shape))
    # A step may reach from place a to before place b if rows[:b] - room[b - 1] <= rows[:a].
    following = np.searchsorted(ends - room, ends - rows, side="right")
    np.maximum(following, np.arange(1, len(following) + 1), out=following)
    jumps, borders = following.data, array("q", [0])
    while borders[-1] < len(following):
        borders.append(jumps[borders[-1]])
    return np.array(borders)


def _shuffled(order: np.ndarray, borders: np.ndarray, rng: np.random.Generator) -> Plan:
    sizes = np.diff(borders)
    chosen = rng.permutation(len(sizes))
    taken = sizes[chosen]
    return Plan(_small(order)[ranges(borders[chosen], taken)], np.append(0, np.cumsum(taken)))


def _small(places: np.ndarray) -> np.ndarray:
    return places.astype(np.int32) if len(places) < 2**31 else places
