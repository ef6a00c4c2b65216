"""Binary cross-entropy of types, any number of which a mention may have (papers/003, section 3.1)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from rayner.losses.full_precision import exact


def typing_loss(logits: Tensor, right: Tensor) -> Tensor:
    """The binary cross-entropy summed over mentions and types.

    Only the types that a mention has are given: no table of zeros and ones for thousands of types is made.
    For the loss over some of the types, give their columns.

    Args:
        logits: [M, K] of any floating type.
        right: int64 [P, 2] mention and type (column), each pair once.

    Returns:
        A scalar in float32 at least.
    """
    logits = exact(logits)
    mention, kind = right.unbind(1)
    return F.softplus(logits).sum() - logits[mention, kind].sum()
