"""The steps of an epoch as whole stories, two at least in each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from rayner.data.plans import Plan, group_codes, places_by, ranges


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
    A corpus of one story makes a step of one.

    Args:
        lengths: [N] tokens of each example.
        groups: [N] the story of each, as `batches.plan`; an example without one is a story.
        budget: tokens a step.
    """
    rng = np.random.default_rng([seed, epoch])
    members, sizes, tokens = _stories(lengths, groups)
    begins = np.cumsum(sizes) - sizes
    room = _rounded_up(tokens)
    laid_out = np.argsort(room, kind="stable")
    places, ends = _places(room[laid_out], budget)
    # Stories shuffled, then by room: of those with equal room, any may come first.
    shuffled = rng.permutation(len(room))
    dealt = shuffled[np.argsort(room[shuffled], kind="stable")][places]
    counts = np.diff(ends)
    steps = rng.permutation(len(counts))
    order = dealt[ranges(ends[:-1][steps], counts[steps])]
    borders = np.append(0, np.cumsum(counts[steps]))
    examples = np.append(0, np.cumsum(sizes[order]))
    return Plan(members[ranges(begins[order], sizes[order])], examples[borders])


def longest(lengths: np.ndarray, groups: Sequence[str | None] | np.ndarray | None) -> int:
    """The tokens of the longest story, which a step holds whole; the arguments are those of `plan`."""
    return int(_stories(lengths, groups)[2].max(initial=0))


def _stories(
    lengths: np.ndarray, groups: Sequence[str | None] | np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Examples by story [N]; of each story, how many they are and their tokens."""
    lengths = np.maximum(lengths, 1).astype(np.int64)
    codes = np.full(len(lengths), -1) if groups is None else group_codes(groups).astype(np.int64)
    alone = np.flatnonzero(codes < 0)
    codes[alone] = codes.max(initial=-1) + 1 + np.arange(len(alone))
    members, sizes = places_by(codes), np.bincount(codes)
    return members, sizes, np.add.reduceat(lengths[members], np.cumsum(sizes) - sizes)


def _rounded_up(tokens: np.ndarray) -> np.ndarray:
    """To classes less than a quarter apart, so that few stories are alone in their class."""
    finest = np.left_shift(1, np.maximum(np.frexp(tokens)[1] - 3, 0))
    return -(-tokens // finest) * finest


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
