"""The spans that a model finds, picked where the scores are (papers/000, algorithm 1, lines 1 to 18)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from rayner.losses.span_scores import SpanScores, candidate_spans


class Selected(NamedTuple):
    """Spans above their threshold, in order of window, type, start, end; each tensor has one entry a span."""

    window: Tensor
    type: Tensor
    start: Tensor
    """The first sub-word"""
    end: Tensor
    """The last sub-word, included"""
    score: Tensor
    margin: Tensor
    """score - threshold"""


def select(
    scores: SpanScores,
    word_start: Tensor,
    word_end: Tensor,
    shift: float | Tensor = 0.0,
    *,
    joint: bool = False,
) -> Selected:
    """All spans from a word's start to a word's end that score above their type's threshold.

    Args:
        scores: of a batch of windows.
        word_start: bool [B, L], false at special tokens and padding.
        word_end: bool [B, L], likewise.
        shift: added to the threshold of spans; one number, or one a type, [K].
        joint: also require that start and end are not below their thresholds.
    """
    widths = scores.span.shape[3]
    bar = scores.span_threshold + shift
    found = scores.span > bar[:, :, None, None]
    found &= candidate_spans(word_start, word_end, widths).unsqueeze(1)
    if joint:
        starts = scores.start >= scores.start_threshold.unsqueeze(2)
        ends = scores.end >= scores.end_threshold.unsqueeze(2)
        found &= candidate_spans(starts.flatten(0, 1), ends.flatten(0, 1), widths).view_as(found)
    window, kind, start, width = found.nonzero(as_tuple=True)
    score = scores.span[window, kind, start, width]
    return Selected(window, kind, start, start + width, score, score - scores.span_threshold[window, kind])


__all__ = ["Selected", "select"]
