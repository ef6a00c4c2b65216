"""Log-sum-exp over the cells that a mask leaves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def masked_logsumexp(scores: Tensor, mask: Tensor) -> Tensor:
    """Log-sum-exp over the last dimension of `scores`, of the cells where `mask` (same shape) is true.

    Masked cells are left out exactly. Without any cell the result is -inf and its gradient zero, where
    `torch.logsumexp` gives NaN.
    """
    result: Tensor = _MaskedLogSumExp.apply(scores, mask)  # type: ignore[assignment]
    return result


class _MaskedLogSumExp(torch.autograd.Function):
    """Keeps the exponentials, in place of the scores and the mask, for the backward pass."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor) -> Tensor:
        exponentials = scores.masked_fill(~mask, float("-inf"))
        # Torch has no highest of no cells.
        has_cells = scores.shape[-1] > 0
        top = exponentials.amax(-1, True) if has_cells else scores.new_zeros(*scores.shape[:-1], 1)
        top.masked_fill_(top == float("-inf"), 0)
        exponentials.sub_(top).exp_()
        total = exponentials.sum(-1, keepdim=True)
        ctx.save_for_backward(exponentials, total)
        return (total.log() + top).squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        exponentials, total = ctx.saved_tensors
        share = gradient.unsqueeze(-1) / total
        return exponentials * share.masked_fill_(total == 0, 0), None
