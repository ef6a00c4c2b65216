"""Rows to contrast, and the pairs among them."""

from __future__ import annotations

import torch
from torch import Tensor

from rayner.losses.positives import Pairs, pairs


def all_pairs(labels: Tensor) -> Pairs:
    """Each row against all others; those of its label are its positives."""
    return pairs(labels, labels, torch.arange(len(labels)))


def random_rows(rows: int, width: int = 5, seed: int = 0) -> Tensor:
    """[rows, width] float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=generator, dtype=torch.float64)
