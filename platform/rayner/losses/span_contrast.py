"""The contrastive objective of the bi-encoder (papers/000, equations 5 to 10)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.config import ContrastSettings
from rayner.losses.masked import masked_logsumexp


class SpanScores(NamedTuple):
    """Similarities (cosine / temperature) of a batch of windows with K types, at least float32.

    Cell (i, w) of `span` is the span from sub-word i to sub-word i + w, both included; where i + w lies
    outside the window the cell holds some finite number. W is 1 or more.
    """

    start: Tensor
    """[B, K, L]"""
    end: Tensor
    """[B, K, L]"""
    span: Tensor
    """[B, K, L, W]"""
    start_threshold: Tensor
    """[B, K]"""
    end_threshold: Tensor
    """[B, K]"""
    span_threshold: Tensor
    """[B, K]"""


class SpanTargets(NamedTuple):
    """What is known about the spans of a batch of windows."""

    word_start: Tensor
    """bool [B, L]: sub-words that begin a word; false at special tokens and padding"""
    word_end: Tensor
    """bool [B, L]: sub-words that end a word"""
    gold: Tensor
    """int64 [G, 4]: window, type, first and last sub-word of each mention"""
    known: Tensor
    """bool [B, K]: the types that a window was annotated for; the others add nothing"""
    excluded_starts: Tensor
    """int64 [N, 3]: window, type and position of starts that are no negatives, as of cut mentions"""
    excluded_ends: Tensor
    """int64 [N, 3]: the same for ends"""
    excluded_spans: Tensor
    """int64 [N, 4]: window, type, first and last sub-word of spans of which it is unknown whether they are
    mentions: neither they nor their starts and ends are negatives"""


def span_contrast(
    scores: SpanScores, targets: SpanTargets, settings: ContrastSettings, *, thresholded: bool = True
) -> dict[str, Tensor]:
    """The sums of the parts of the objective over mentions and over (window, type) pairs.

    The negatives of a type are all candidates of the window but its mentions and what is excluded; all
    mentions of a window and type share them. With `thresholded`, `start_threshold`, `end_threshold` and
    `span_threshold` say how far the negatives lie below the threshold (the second term of equations 8 and 9,
    with the threshold itself in its denominator, as in the published code); they are zero without.
    `settings.threshold_in_denominator` counts the threshold among the negatives of a mention too. A mention
    wider than the scored widths counts by its start and end. With `settings.boundary_smoothing` the target of
    a mention is spread: that part of it is shared by those of its negatives whose start or end is one word
    off (Zhu and Li 2022).

    Returns:
        Scalars `start, end, span` (divide by the mentions) and `start_threshold, end_threshold,
        span_threshold` (divide by `known.sum()`).
    """
    window, kind, first, last = targets.gold.unbind(1)
    widths = scores.span.shape[3]
    inside = last - first < widths
    # The cell of [CLS] is in place of what is too wide to have one: it is no candidate of anything.
    cell = torch.where(inside, first * widths + last - first, 0)

    counted = targets.known[window, kind]
    parts: dict[str, Tensor] = {}

    def add(
        part: str, values: Tensor, negatives: Tensor, threshold: Tensor, position: Tensor, counts: Tensor
    ) -> None:
        below = masked_logsumexp(values, negatives)
        both = torch.logaddexp(below, threshold)
        among = both if thresholded and settings.threshold_in_denominator else below
        margin = values[window, kind, position] - among[window, kind]
        parts[part] = -torch.where(counts, F.logsigmoid(margin), 0).sum()
        parts[f"{part}_threshold"] = (
            torch.where(targets.known, both - threshold, 0).sum() if thresholded else values.new_zeros(())
        )

    types = scores.start.shape[1]
    of, type_, begin, end = targets.excluded_spans.unbind(1)
    open_cell = torch.where(end - begin < widths, begin * widths + end - begin, 0)
    open_starts = targets.excluded_starts.unbind(1), (of, type_, begin)
    starts = _without(targets.word_start, types, (window, kind, first), *open_starts)
    add("start", scores.start, starts, scores.start_threshold, first, counted)
    open_ends = targets.excluded_ends.unbind(1), (of, type_, end)
    ends = _without(targets.word_end, types, (window, kind, last), *open_ends)
    add("end", scores.end, ends, scores.end_threshold, last, counted)
    spans = candidate_spans(targets.word_start, targets.word_end, widths).flatten(1)
    spans = _without(spans, types, (window, kind, cell), (of, type_, open_cell))
    add("span", scores.span.flatten(2), spans, scores.span_threshold, cell, counted & inside)
    if settings.boundary_smoothing:
        beside = _smoothing(scores.span.flatten(2), spans, targets, widths)
        own = scores.span.flatten(2)[window, kind, cell]
        lost = torch.where(counted & inside & beside.any, own - beside.mean, 0).sum()
        parts["span"] = parts["span"] + settings.boundary_smoothing * lost
    return parts


class _Beside(NamedTuple):
    """Of each mention [G]: the mean score of the spans beside it, and whether there is any."""

    mean: Tensor
    any: Tensor


def _smoothing(values: Tensor, negatives: Tensor, targets: SpanTargets, widths: int) -> _Beside:
    """Those negatives of a mention whose start or whose end is the word before or after its own."""
    window, kind, first, last = targets.gold.unbind(1)
    start_before, start_after = (near[window, first] for near in _nearest(targets.word_start))
    end_before, end_after = (near[window, last] for near in _nearest(targets.word_end))
    starts = torch.stack([start_before, start_after, first, first], 1)
    ends = torch.stack([last, last, end_before, end_after], 1)
    length = targets.word_start.shape[1]
    inside = (starts >= 0) & (ends < length) & (ends >= starts) & (ends - starts < widths)
    cells = torch.where(inside, starts * widths + ends - starts, 0)
    counts = inside & negatives[window[:, None], kind[:, None], cells]
    found = torch.where(counts, values[window[:, None], kind[:, None], cells], 0).sum(1)
    return _Beside(found / counts.sum(1).clamp(min=1), counts.any(1))


def _nearest(marks: Tensor) -> tuple[Tensor, Tensor]:
    """Of each place in [B, L] the nearest mark before and after it; -1 and L where there is none."""
    length = marks.shape[1]
    places = torch.arange(length, device=marks.device)
    before = torch.where(marks, places, -1).cummax(1).values
    after = torch.where(marks, places, length).flip(1).cummin(1).values.flip(1)
    return F.pad(before[:, :-1], (1, 0), value=-1), F.pad(after[:, 1:], (0, 1), value=length)


def candidate_spans(word_start: Tensor, word_end: Tensor, widths: int) -> Tensor:
    """Which cells are spans from a word's start to a word's end: [B, L, W], from two [B, L] masks."""
    ends = F.pad(word_end, (0, widths - 1)).unfold(1, widths, 1)
    return torch.logical_and(word_start.unsqueeze(2), ends)


def loss_weights(settings: ContrastSettings, *, thresholded: bool = True) -> dict[str, float]:
    """The weight of each part of `span_contrast` (equation 10).

    Without thresholds in training, `beta` falls away (papers/000, section 4, thresholds tuned on dev).
    """
    beta = settings.beta if thresholded else 1.0
    whole = {"start": settings.start_weight, "end": settings.end_weight, "span": settings.span_weight}
    mentions = {part: beta * weight for part, weight in whole.items()}
    return mentions | {f"{part}_threshold": (1 - beta) * weight for part, weight in whole.items()}


def _without(candidates: Tensor, types: int, *cells: tuple[Tensor, ...]) -> Tensor:
    """Candidates [B, N] of every type, [B, K, N], but for the cells (window, type, position)."""
    negatives = candidates.unsqueeze(1).repeat(1, types, 1)
    for window, kind, position in cells:
        negatives[window, kind, position] = False
    return negatives
