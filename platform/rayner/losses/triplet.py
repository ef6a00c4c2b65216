"""Triplet margin losses with online mining (papers/002, section 3.3), as sums and counts.

Add up sums and counts over all workers, then divide once.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.losses.positives import Pairs


def batch_all(distances: Tensor, pairs: Pairs, margin: float) -> tuple[Tensor, Tensor]:
    """The sum of d(a, p) - d(a, n) + margin over the triplets where it is positive, and how many these are.

    Given which triplets are active, their sum is linear in the distances: each d(a, p) counts once for each
    negative within its reach d(a, p) + margin, each d(a, n) once for each positive that reaches it. Sorting
    and bisection give both counts in O(A C log C) time and O(A C) memory.

    Args:
        distances: [A, C], float32 or float64.
        pairs: which cells are positives and negatives.
        margin: in the unit of the distances.

    Returns:
        The sum, a scalar, and the number of active triplets, an int64 scalar. Without any, both are 0.
    """
    with torch.no_grad():
        reach = distances + margin
        negatives = distances.masked_fill(~pairs.negative, torch.inf).sort(1).values
        reached = torch.searchsorted(negatives, reach, out_int32=True).masked_fill_(~pairs.positive, 0)
        del negatives
        reaches = reach.masked_fill_(~pairs.positive, -torch.inf).sort(1).values
        below = torch.searchsorted(reaches, distances.contiguous(), right=True, out_int32=True)
        reaching = below.neg_().add_(distances.shape[1]).masked_fill_(~pairs.negative, 0)
        active = reached.sum()
        weights = (reached - reaching).to(distances.dtype)
    return (weights * distances).sum() + margin * active.to(distances.dtype), active


def batch_hard(distances: Tensor, pairs: Pairs, margin: float) -> tuple[Tensor, Tensor]:
    """The sum over anchors of relu(max d(a, p) - min d(a, n) + margin), and the number of anchors.

    As in the published code, every anchor counts, and one without a positive has a positive at distance 0: it
    still pushes its negatives away. An anchor without a negative adds 0 (the published code adds the margin,
    with the same gradient of 0). Equally hard candidates share the gradient.

    Args:
        distances: [A, C], float32 or float64.
        pairs: which cells are positives and negatives.
        margin: in the unit of the distances.

    Returns:
        The sum, a scalar, and A, an int64 scalar.
    """
    anchors = torch.full((), len(distances), device=distances.device)
    if distances.numel() == 0:
        return distances.sum(), anchors
    farthest = distances.masked_fill(~pairs.positive, -torch.inf).amax(1)
    farthest = farthest.masked_fill(~pairs.positive.any(1), 0)
    nearest = distances.masked_fill(~pairs.negative, torch.inf).amin(1)
    return F.relu(farthest - nearest + margin).sum(), anchors
