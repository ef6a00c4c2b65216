"""Which of the mentions that share characters are kept, where no two may."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

from rayner.data.schema import Mention


def without_overlaps(
    mentions: Iterable[Mention], choice: Literal["greedy", "optimal"] = "greedy"
) -> list[Mention]:
    """Mentions of which no two overlap, across types, in their order.

    Below the usual thresholds lower ones add mentions and take none away, whatever the choice; above them, so
    does `greedy` alone.

    Args:
        choice: `greedy` keeps those furthest above their thresholds first (papers/000, algorithm 1,
            removeOverlap), `optimal` those whose margins have the largest sum. Where thresholds were lowered,
            mentions below the usual ones come after all others, in what room is left, furthest first.
    """
    if choice == "greedy":
        return _furthest_first(mentions, [])
    found = list(mentions)
    return _furthest_first(found, _heaviest(m for m in found if (m.margin or 0.0) > 0))


def _furthest_first(mentions: Iterable[Mention], before: Sequence[Mention]) -> list[Mention]:
    """Those that are kept before, and what does not overlap them."""
    kept = list(before)
    taken = {place for mention in kept for place in range(mention.start, mention.end)}
    for mention in sorted(mentions, key=lambda m: (-(m.margin or 0.0), m.start, m.end)):
        if taken.isdisjoint(range(mention.start, mention.end)):
            kept.append(mention)
            taken.update(range(mention.start, mention.end))
    return sorted(kept, key=lambda m: (m.start, m.end))


def _heaviest(mentions: Iterable[Mention]) -> list[Mention]:
    """Weighted interval scheduling: by where they end, the best sum with and without each."""
    ordered = sorted(mentions, key=lambda m: (m.end, m.start, m.type))
    ends = [m.end for m in ordered]
    best, before = [0.0], []
    for place, mention in enumerate(ordered):
        before.append(bisect_right(ends, mention.start, 0, place))
        best.append(max(best[place], best[before[place]] + (mention.margin or 0.0)))
    kept, place = [], len(ordered)
    while place:
        if best[place] > best[place - 1]:
            kept.append(ordered[place - 1])
            place = before[place - 1]
        else:
            place -= 1
    return kept[::-1]
