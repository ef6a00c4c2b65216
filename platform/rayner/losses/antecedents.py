"""The marginal log-likelihood of antecedents (Lee et al. 2017, section 4)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.losses.masked import masked_logsumexp


def antecedent_loss(scores: Tensor, possible: Tensor, gold: Tensor) -> Tensor:
    """-log P(any gold antecedent), summed over candidates.

    "No antecedent" has score 0 and is right where a candidate has no gold antecedent among those possible.
    All gold antecedents count together: which of them a candidate finds is left to the model.

    Args:
        scores: [K, A] of candidates and the antecedents before them.
        possible: bool [K, A] which cells are antecedents at all.
        gold: bool [K, A] which are of the candidate's own chain.

    Returns:
        A scalar, in float32 at least.
    """
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    with_none = F.pad(scores, (1, 0))
    gold = gold & possible
    right = torch.cat([~gold.any(1, keepdim=True), gold], 1)
    return (
        masked_logsumexp(with_none, F.pad(possible, (1, 0), value=True)) - masked_logsumexp(with_none, right)
    ).sum()
