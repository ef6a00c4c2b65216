"""How well spans fit types: what a span model gives and what losses and decoding take."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


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


def candidate_spans(word_start: Tensor, word_end: Tensor, widths: int) -> Tensor:
    """Which cells are spans from a word's start to a word's end: [B, L, W], from two [B, L] masks."""
    ends = F.pad(word_end, (0, widths - 1)).unfold(1, widths, 1)
    return torch.logical_and(word_start.unsqueeze(2), ends)
