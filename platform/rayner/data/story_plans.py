"""The steps of an epoch as stories, two at least in each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from rayner.data.plans import Plan, group_codes, places_by, ranges

STRETCHES = 4
"""Of stories that are longer than a step, so many fit one."""
TRIES = 64
"""Stretches that are looked at for one to exchange."""


def plan(
    lengths: np.ndarray,
    groups: Sequence[str | None] | np.ndarray | None,
    seed: int,
    epoch: int,
    budget: int,
) -> Plan:
    """Steps of whole stories, each within the budget or of two stories (one step may have to be of three).

    A story that is longer than the budget, such as a novel, comes in stretches of about a quarter of it: a
    contrast of stories needs others in the step, not the whole of one. Places are laid out once, each for a
    story or stretch of at most so many tokens; an epoch deals those of about equal length out over their
    places anew, and orders the steps anew. So all epochs have equally many steps. A step has one story alone
    where there is but one, or where stretches of one are too many for what else there is.

    Args:
        lengths: [N] tokens of each example.
        groups: [N] the story of each, as `batches.plan`; an example without one is a story.
        budget: tokens a step.
    """
    rng = np.random.default_rng([seed, epoch])
    members, sizes, tokens, stories = _stretches(lengths, groups, budget)
    begins = np.cumsum(sizes) - sizes
    room = _rounded_up(tokens)
    laid_out = np.argsort(room, kind="stable")
    places, ends = _places(room[laid_out], budget)
    # Stories shuffled, then by room: of those with equal room, any may come first.
    shuffled = rng.permutation(len(room))
    dealt = shuffled[np.argsort(room[shuffled], kind="stable")][places]
    if len(stories) and stories[-1] + 1 < len(stories):
        _part_stories(dealt, ends, stories, room, rng)
    counts = np.diff(ends)
    steps = rng.permutation(len(counts))
    order = dealt[ranges(ends[:-1][steps], counts[steps])]
    borders = np.append(0, np.cumsum(counts[steps]))
    examples = np.append(0, np.cumsum(sizes[order]))
    return Plan(members[ranges(begins[order], sizes[order])], examples[borders])


def longest(lengths: np.ndarray, groups: Sequence[str | None] | np.ndarray | None) -> int:
    """The tokens of the longest story; the arguments are those of `plan`."""
    members, sizes = _stories(groups, len(lengths))
    return int(_sums(lengths, members, sizes).max(initial=0))


def _stretches(
    lengths: np.ndarray, groups: Sequence[str | None] | np.ndarray | None, budget: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Examples by stretch [N]; of each stretch, how many they are, their tokens and the number of its story.

    A story that fits a step is one stretch.
    """
    members, sizes = _stories(groups, len(lengths))
    whole = _sums(lengths, members, sizes)
    if not (whole > budget).any():
        return members, sizes, whole, np.arange(len(sizes))
    tokens = np.maximum(lengths, 1).astype(np.int64)[members]
    numbers = np.where(whole > budget, -(-whole * STRETCHES // budget), 1)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    middles = np.cumsum(tokens) - (np.cumsum(whole) - whole)[codes] - (tokens + 1) // 2
    stretches = middles * numbers[codes] // whole[codes]
    begins = np.flatnonzero((np.diff(codes, prepend=-1) != 0) | (np.diff(stretches, prepend=-1) != 0))
    sizes = np.diff(begins, append=len(members))
    return members, sizes, np.add.reduceat(tokens, begins), codes[begins]


def _stories(groups: Sequence[str | None] | np.ndarray | None, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Examples by story [N], and how many each story has."""
    codes = np.full(number, -1) if groups is None else group_codes(groups).astype(np.int64)
    alone = np.flatnonzero(codes < 0)
    codes[alone] = codes.max(initial=-1) + 1 + np.arange(len(alone))
    return places_by(codes), np.bincount(codes)


def _sums(lengths: np.ndarray, members: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.add.reduceat(np.maximum(lengths, 1).astype(np.int64)[members], np.cumsum(sizes) - sizes)


def _part_stories(
    dealt: np.ndarray, ends: np.ndarray, stories: np.ndarray, room: np.ndarray, rng: np.random.Generator
) -> None:
    """Exchange stretches of equal room until no step has one story alone, as far as TRIES find one.

    Args:
        dealt: [U] the stretches, step by step; changed in place.
        ends: [S + 1] where steps end.
        stories: [U] the story of each stretch.
        room: [U] what its place has to hold of each stretch.
    """
    steps = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    by_room = np.argsort(room[dealt], kind="stable")
    rooms = room[dealt][by_room]

    def others(step: int, story: int) -> int:
        return int((stories[dealt[ends[step] : ends[step + 1]]] != story).sum())

    told = stories[dealt]
    alone = np.minimum.reduceat(told, ends[:-1]) == np.maximum.reduceat(told, ends[:-1])
    for step in np.flatnonzero(alone).tolist():
        place = int(ends[step + 1]) - 1
        story = int(stories[dealt[place]])
        if others(step, story):
            continue
        first, last = (int(np.searchsorted(rooms, room[dealt[place]], side)) for side in ("left", "right"))
        tried = by_room[rng.integers(first, last, TRIES)]
        for other in tried[stories[dealt[tried]] != story].tolist():
            if others(int(steps[other]), story) > 1:
                dealt[[place, other]] = dealt[[other, place]]
                break


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
