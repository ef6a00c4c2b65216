"""Spans above their thresholds, most of them ruled out by a bound and never scored.

No span that begins at a sub-word scores above what the best end, the best width and the best norm within its
reach would give. The bound takes the operations of the score in the same order, and rounding is monotone, so
it holds for the rounded scores too, with no slack: what is found is what scoring every span finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.losses.span_contrast import SpanScores, candidate_spans
from rayner.models.span_scorer import SpanParts

_CELLS_AT_ONCE = 1 << 20
"""Scores of spans that are in memory at once."""


class WindowVectors(NamedTuple):
    """A batch of windows in the three spaces."""

    start: Tensor
    """[B, L, D]"""
    end: Tensor
    """[B, L, D]"""
    first: Tensor
    """[B, L, D]: of the first sub-word of spans"""
    last: Tensor
    """[B, L, D]: of the last one"""
    width: Tensor
    """[1, W, D]"""
    inverse_norms: Tensor
    """[B, L, W]: of span vectors"""


class ScoreParts(NamedTuple):
    """What makes the `SpanScores` of windows; without those of starts and ends where nobody asks for them."""

    start: Tensor | None
    """[B, K, L]"""
    end: Tensor | None
    """[B, K, L]"""
    span: SpanParts
    start_threshold: Tensor | None
    """[B, K]"""
    end_threshold: Tensor | None
    """[B, K]"""
    span_threshold: Tensor
    """[B, K]"""


class Rule(NamedTuple):
    """What decides about a span. Its score is the mean of those of span, start and end by the weights."""

    start_weight: float = 0.0
    end_weight: float = 0.0
    joint: bool = False
    """Whether start and end must reach their thresholds, too"""

    @property
    def spans_alone(self) -> bool:
        """Whether scores of starts and ends decide nothing."""
        return not (self.start_weight or self.end_weight or self.joint)

    def threshold(self, scores: SpanScores | ScoreParts) -> Tensor:
        """What the score of a span is held against: [B, K]."""
        return self._mean(scores.span_threshold, scores.start_threshold, scores.end_threshold)

    def scores(self, scores: SpanScores) -> SpanScores:
        """The scores of spans that are decided by, with their thresholds."""
        if not (self.start_weight or self.end_weight):
            return scores
        threshold, widths = self.threshold(scores), scores.span.shape[3]
        ends = F.pad(scores.end, (0, widths - 1)).unfold(2, widths, 1)
        span = self._mean(scores.span, scores.start.unsqueeze(3), ends)
        return scores._replace(span=span, span_threshold=threshold)

    def _mean(self, span: Tensor, start: Tensor | None, end: Tensor | None) -> Tensor:
        """In this order wherever it is computed, so that it is rounded alike."""
        if start is not None and end is not None and (self.start_weight or self.end_weight):
            span = span * (1.0 - self.start_weight - self.end_weight)
            span = span.add_(start * self.start_weight).add_(end * self.end_weight)
        return span


class FoundSpans(NamedTuple):
    """Spans above their thresholds, in order of window, type, start, width; one entry a span."""

    window: Tensor
    type: Tensor
    start: Tensor
    width: Tensor
    score: Tensor


def spans_above(
    parts: ScoreParts, word_start: Tensor, word_end: Tensor, bar: Tensor, rule: Rule
) -> FoundSpans:
    """The spans from a word's start to a word's end whose score is above the bar [B, K] of their type."""
    candidates = candidate_spans(word_start, word_end, parts.span.inverse_norms.shape[2])
    allowed_ends = word_end.unsqueeze(1)
    begins = candidates.any(2).unsqueeze(1)
    if rule.joint:
        begins = begins & _reached(parts.start, parts.start_threshold)
        allowed_ends = allowed_ends & _reached(parts.end, parts.end_threshold)
    begins = begins & (_bound(parts, candidates, allowed_ends, rule) > bar.unsqueeze(2))
    rows = begins.nonzero(as_tuple=True)
    at_once = max(1, _CELLS_AT_ONCE // candidates.shape[2])
    split = zip(*(column.split(at_once) for column in rows), strict=True)
    found = [_scored(parts, cells, candidates, allowed_ends, bar, rule) for cells in split]
    return FoundSpans(*map(torch.cat, zip(*found, strict=True)))


def _reached(scores: Tensor | None, threshold: Tensor | None) -> Tensor:
    assert scores is not None
    assert threshold is not None
    return scores >= threshold.unsqueeze(2)


def _bound(parts: ScoreParts, candidates: Tensor, allowed_ends: Tensor, rule: Rule) -> Tensor:
    """[B, K, L]: no candidate that begins there has a score above it."""
    span, widths = parts.span, candidates.shape[2]

    def best_ahead(values: Tensor) -> Tensor:
        return _highest_ahead(values.masked_fill(~allowed_ends, -torch.inf), widths)

    upper = (span.first + best_ahead(span.last)).add_(span.width.amax(2, keepdim=True))
    norms = span.inverse_norms.unsqueeze(1)
    of_candidates = candidates.unsqueeze(1)
    highest = norms.masked_fill(~of_candidates, 0).amax(3)
    lowest = norms.masked_fill(~of_candidates, torch.inf).amin(3)
    # A sum below 0 is highest where the norm is largest.
    upper = torch.maximum(upper * highest, upper * lowest.clamp(max=highest))
    return rule._mean(upper, parts.start, None if parts.end is None else best_ahead(parts.end))


def _highest_ahead(values: Tensor, count: int) -> Tensor:
    """The highest of `values[i : i + count]` at each i of the last dimension."""
    reach, length = 1, values.shape[-1]
    while reach < min(count, length):
        step = min(reach, count - reach)
        highest = values.clone()
        torch.maximum(values[..., :-step], values[..., step:], out=highest[..., :-step])
        values, reach = highest, reach + step
    return values


def _scored(
    parts: ScoreParts,
    rows: tuple[Tensor, ...],
    candidates: Tensor,
    allowed_ends: Tensor,
    bar: Tensor,
    rule: Rule,
) -> FoundSpans:
    """Of all widths from these windows, types and starts [N], those above the bar."""
    window, kind, start = rows
    span, (length, widths) = parts.span, candidates.shape[1:]
    place = window * length + start
    cell = (window * bar.shape[1] + kind) * length + start

    def ahead(values: Tensor) -> Tensor:
        """[N, W] from [B, K, L]; behind the window what comes next, where no span is a candidate."""
        # Whole rows of a view are copied ten times faster than cells are gathered.
        flat = F.pad(values.flatten(), (0, widths - 1))
        return flat.unfold(0, widths, 1).index_select(0, cell)

    scores = span.first[rows][:, None] + ahead(span.last)
    scores.add_(span.width[0].index_select(0, kind))
    scores.mul_(span.inverse_norms.flatten(0, 1).index_select(0, place))
    if parts.start is not None and parts.end is not None:
        scores = rule._mean(scores, parts.start[rows][:, None], ahead(parts.end))
    above = (scores > bar[window, kind][:, None]) & candidates.flatten(0, 1).index_select(0, place)
    if rule.joint:
        above &= ahead(allowed_ends)
    row, width = above.nonzero(as_tuple=True)
    return FoundSpans(window[row], kind[row], start[row], width, scores[row, width])


def blocks(count: int, cells: int) -> Iterator[slice]:
    """Parts of so many types, of each of which so many numbers are held."""
    at_once = max(1, _CELLS_AT_ONCE // cells)
    for first in range(0, count, at_once):
        yield slice(first, min(count, first + at_once))
