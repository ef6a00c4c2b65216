"""Supervised InfoNCE over groups (papers/003, section 3), as a sum and a count."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.losses.distances import cosines
from rayner.losses.masked import masked_logsumexp
from rayner.losses.positives import Pairs


def infonce(anchors: Tensor, candidates: Tensor, pairs: Pairs, temperature: float) -> tuple[Tensor, Tensor]:
    """-log(e^(s/t) / (e^(s/t) + sum over the anchor's negatives of e^(s'/t))), summed over positive pairs.

    The other positives of an anchor are not in the denominator. All positives of an anchor share one
    log-sum-exp.

    Args:
        anchors: [A, D] of any floating type.
        candidates: [C, D].
        pairs: which of the [A, C] pairs are positives and negatives.
        temperature: t, by which cosines are divided.

    Returns:
        The sum, a scalar in float32 at least, also under autocast, and the number of positive pairs, an int64
        scalar: add both up over all workers, then divide. Without any positive, both are 0.
    """
    scores = cosines(anchors, candidates) / temperature
    margins = scores - masked_logsumexp(scores, pairs.negative)[:, None]
    return -torch.where(pairs.positive, F.logsigmoid(margins), 0).sum(), pairs.positive.sum()
