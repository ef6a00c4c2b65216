"""The steps of an epoch as stories, two at least in each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from rayner.data.plans import Plan, group_codes, ranges, rounded_up, units_of

STRETCHES = 4
"""So many fit a step, where there are stories longer than a step."""


def plan(
    lengths: np.ndarray,
    groups: Sequence[str | None] | np.ndarray | None,
    seed: int,
    epoch: int,
    budget: int,
) -> Plan:
    """Steps of whole stories, each within the budget or of two stories (one step may have to be of three).

    Places are laid out once, each for a story of at most so many tokens; an epoch deals the stories of about
    equal length out over their places anew, and orders the steps anew. So all epochs have equally many steps.
    Where a story is longer than the budget, such as a novel, the steps are of stretches; see `_of_stretches`.

    Args:
        lengths: [N] tokens of each example.
        groups: [N] the story of each, as `batches.plan`; an example without one is a story.
        budget: tokens a step.
    """
    rng = np.random.default_rng([seed, epoch])
    members, sizes = _stories(groups, len(lengths))
    tokens = _sums(lengths, members, sizes)
    if (tokens > budget).any():
        return _of_stretches(lengths, members, sizes, budget, rng)
    room = rounded_up(tokens, 3)
    laid_out = np.argsort(room, kind="stable")
    places, ends = _places(room[laid_out], budget)
    dealt = _dealt(room, rng)[places]
    counts = np.diff(ends)
    steps = rng.permutation(len(counts))
    order = dealt[ranges(ends[:-1][steps], counts[steps])]
    borders = np.append(0, np.cumsum(counts[steps]))
    return _plan(members, sizes, order, borders)


def longest(lengths: np.ndarray, groups: Sequence[str | None] | np.ndarray | None) -> int:
    """The tokens of the longest story; the arguments are those of `plan`."""
    members, sizes = _stories(groups, len(lengths))
    return int(_sums(lengths, members, sizes).max(initial=0))


def alone(steps: Plan, groups: Sequence[str | None] | np.ndarray | None) -> int:
    """How many steps of a plan hold one story alone."""
    members, sizes = _stories(groups, len(steps.order))
    codes = np.empty(len(members), np.int64)
    codes[members] = np.repeat(np.arange(len(sizes)), sizes)
    told, begins = codes[steps.order], steps.borders[:-1]
    return int((np.minimum.reduceat(told, begins) == np.maximum.reduceat(told, begins)).sum())


def _of_stretches(
    lengths: np.ndarray, members: np.ndarray, sizes: np.ndarray, budget: int, rng: np.random.Generator
) -> Plan:
    """Steps of four parts at most, each a stretch of a story or some short ones, of a quarter of the budget.

    A contrast of stories needs others in a step, not the whole of one. The parts, story by story, are dealt
    to the steps in turn, as cards are: so those of a story are spread over as many steps as there are, and
    a step has one story alone only where the parts of others are hardly more than the steps, or fewer.
    """
    quarter, ends = max(budget // STRETCHES, 1), np.cumsum(sizes)
    tokens = np.maximum(lengths, 1).astype(np.int64)[members]
    begins = _runs(tokens, quarter, ends)
    whole = np.add.reduceat(tokens, begins)
    room = rounded_up(whole, 3)
    parts = _runs(np.sort(room), quarter, np.array([len(room)]))
    dealt = _dealt(room, rng)
    stories = np.searchsorted(ends, begins[dealt[parts]], "right")
    order = np.lexsort((rng.permutation(len(parts)), rng.permutation(len(sizes))[stories]))
    # Windows longer than a quarter leave room for three or two.
    most = int(np.clip(budget // whole.max(), 2, STRETCHES))
    number = -(-len(parts) // most)
    step = rng.permutation(number)[np.arange(len(parts)) % number]
    order = order[np.argsort(step, kind="stable")]
    counts = np.diff(parts, append=len(room))[order]
    borders = np.append(0, np.cumsum(counts))[np.append(0, np.cumsum(np.bincount(step)))]
    return _plan(members, np.diff(begins, append=len(members)), dealt[ranges(parts[order], counts)], borders)


def _plan(members: np.ndarray, sizes: np.ndarray, order: np.ndarray, borders: np.ndarray) -> Plan:
    """A plan of parts [U] of so many `members` each, in an order, with steps that begin at some of them."""
    examples = np.append(0, np.cumsum(sizes[order]))
    return Plan(members[ranges((np.cumsum(sizes) - sizes)[order], sizes[order])], examples[borders])


def _dealt(room: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The parts [U] by room, shuffled: of those with equal room, any may come first."""
    shuffled = rng.permutation(len(room))
    return shuffled[np.argsort(room[shuffled], kind="stable")]


def _runs(tokens: np.ndarray, limit: int, ends: np.ndarray) -> np.ndarray:
    """Where runs begin that hold as many tokens as the limit allows, one number at least, across no end."""
    before, begins, begin = [0, *np.cumsum(tokens).tolist()], [], 0
    for end in ends.tolist():
        while begin < end:
            begins.append(begin)
            begin = max(bisect_right(before, before[begin] + limit, begin, end + 1) - 1, begin + 1)
    return np.array(begins, np.int64)


def _stories(groups: Sequence[str | None] | np.ndarray | None, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Examples by story [N], and how many each story has."""
    return units_of(np.full(number, -1) if groups is None else group_codes(groups).astype(np.int64))


def _sums(lengths: np.ndarray, members: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.add.reduceat(np.maximum(lengths, 1).astype(np.int64)[members], np.cumsum(sizes) - sizes)


def _places(room: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the ascending rooms [U] share a step: their places, step by step, and where steps end [S + 1].

    The longest that is left, then the shortest that are left as long as they fit, one of them in any case.
    """
    rooms, before = room.tolist(), [0, *np.cumsum(room).tolist()]
    begins: list[int] = []
    counts: list[int] = []
    short, long = 0, len(rooms) - 1
    while short <= long:
        fits = before[short] + budget - rooms[long]
        long -= 1
        # The shortest ones up to the longest that is left.
        end = min(max(bisect_right(before, fits, short, long + 2) - 1, short + 1), long + 1)
        begins.append(short)
        counts.append(end - short)
        short = end
    if len(counts) > 1 and not counts[-1]:
        # The one left over is given another one's company, or joins two.
        if counts[-2] > 1:
            counts[-2] -= 1
            begins[-1], counts[-1] = begins[-2] + counts[-2], 1
        else:
            counts[-2] += 1
            del begins[-1], counts[-1]
    sizes = 1 + np.array(counts, np.int64)
    ends = np.append(0, np.cumsum(sizes))
    places = ranges(np.array(begins, np.int64) - 1, sizes)
    places[ends[:-1]] = len(rooms) - 1 - np.arange(len(sizes))
    return places, ends
