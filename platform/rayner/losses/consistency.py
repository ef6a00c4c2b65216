"""R-Drop (Liang et al. 2021): what two passes with different dropout decide shall be the same."""

from __future__ import annotations

import torch
from torch import Tensor

from rayner.losses.span_contrast import SpanScores, SpanTargets, candidate_spans


def divergence(one: SpanScores, other: SpanScores, targets: SpanTargets) -> Tensor:
    """The mean of both Kullback-Leibler divergences of the decisions of two passes, a scalar.

    It is summed over the candidate spans of the types that each window was annotated for; divide by
    `known.sum()`. What is decided of a span is whether it is a mention: the logistic function of its margin.
    """
    first, second = (s.span - s.span_threshold[:, :, None, None] for s in (one, other))
    # Of p and q with the log odds a and b, both divergences together are (p - q) (a - b).
    between = (first.sigmoid() - second.sigmoid()) * (first - second) / 2
    candidates = candidate_spans(targets.word_start, targets.word_end, first.shape[3]).unsqueeze(1)
    return torch.where(candidates & targets.known[:, :, None, None], between, 0).sum()
