"""The objective of masked language modelling (papers/003, section 3.2; Devlin et al. 2019)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rayner.losses.full_precision import exact

_CELLS = 2**22
"""How many logits are held at once: 16 MB in float32, a few times over."""


def masked_lm_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, cells: int = _CELLS
) -> Tensor:
    """The cross-entropy of the masked sub-words, summed.

    The logits [N, V] of a large vocabulary are made block by block, and made again in the backward pass:
    beside the gradients, the memory is that of `cells` of them. Products take the precision of autocast,
    log-sum-exp and sums that of float32 at least.

    Args:
        hidden: [N, H] vectors at the masked places, as they enter the output embedding.
        weight: [V, H] output embedding, often tied to that of the input.
        bias: [V], or None.
        targets: int64 [N] the sub-words that were masked.
        cells: how many logits are held at once.

    Returns:
        A scalar in float32 at least.
    """
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    total = hidden.to(dtype).sum() if not len(hidden) else hidden.new_zeros((), dtype=dtype)
    rows = max(1, cells // len(weight))
    for part, wanted in zip(hidden.split(rows), targets.split(rows), strict=True):
        if len(part):
            block = checkpoint(
                _block, part, weight, bias, wanted, use_reentrant=False, preserve_rng_state=False
            )
            assert isinstance(block, Tensor)
            total = total + block
    return total


def _block(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    return F.cross_entropy(exact(F.linear(hidden, weight, bias)), targets, reduction="sum")
