"""How far the relevance of contexts is from what is right (papers/001, section 3.3)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from rayner.losses.full_precision import exact


def relevance_loss(
    logits: Tensor, right: Tensor, objective: Literal["binary_cross_entropy", "mean_squared_error"]
) -> Tensor:
    """The loss summed over pairs, a scalar in float32 at least.

    Args:
        logits: [B] of any floating type; their sigmoids are scores from 0 to 1.
        right: [B] 0 or 1.
    """
    logits = exact(logits)
    right = right.to(logits.dtype)
    if objective == "mean_squared_error":
        return (logits.sigmoid() - right).square().sum()
    return F.binary_cross_entropy_with_logits(logits, right, reduction="sum")
