"""Scores of a few windows and types, and what is gold in them."""

from __future__ import annotations

import torch
from torch import Tensor

from rayner.losses.span_contrast import SpanScores, SpanTargets

WINDOWS, TYPES, LENGTH, WIDTHS = 3, 2, 8, 3
NONE, NOWHERE = (torch.zeros(0, columns, dtype=torch.long) for columns in (3, 4))


def random_scores(seed: int = 0) -> SpanScores:
    generator = torch.Generator().manual_seed(seed)

    def scores(*shape: int) -> Tensor:
        return (5 * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()

    line, threshold = (WINDOWS, TYPES, LENGTH), (WINDOWS, TYPES)
    return SpanScores(
        scores(*line),
        scores(*line),
        scores(*line, WIDTHS),
        scores(*threshold),
        scores(*threshold),
        scores(*threshold),
    )


def some_targets(**changes: Tensor) -> SpanTargets:
    inner = torch.zeros(WINDOWS, LENGTH, dtype=torch.bool)
    inner[:, 1:-1] = True
    starts, ends = inner.clone(), inner.clone()
    starts[0, 3] = ends[0, 2] = False
    starts[1, 5:] = ends[1, 5:] = False
    gold = torch.tensor([[0, 0, 1, 1], [0, 0, 2, 4], [0, 1, 1, 1], [1, 1, 4, 4], [1, 1, 1, 4]])
    known = torch.ones(WINDOWS, TYPES, dtype=torch.bool)
    return SpanTargets(starts, ends, gold, known, NONE, NONE, NOWHERE)._replace(**changes)
