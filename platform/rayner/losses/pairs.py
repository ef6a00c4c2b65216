"""Which candidates are positives and which are negatives of an anchor."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Pairs(NamedTuple):
    """Pairs of A anchors and C candidates; an anchor's own cell is in neither mask."""

    positive: Tensor
    """bool [A, C]: another member of the anchor's group"""
    negative: Tensor
    """bool [A, C]: a member of another group"""


def pairs(anchor_labels: Tensor, labels: Tensor, own: Tensor) -> Pairs:
    """The pairs of anchors that are themselves among the candidates.

    A worker's anchors are its own rows; its candidates are the rows of all workers.

    Args:
        anchor_labels: [A] group of each anchor.
        labels: [C] group of each candidate.
        own: int64 [A] the place of each anchor among the candidates.
    """
    same = anchor_labels[:, None] == labels
    itself = own[:, None] == torch.arange(len(labels), device=labels.device)
    return Pairs(same & ~itself, ~same)
