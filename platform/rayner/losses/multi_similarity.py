"""The multi-similarity loss of Wang et al. 2019 (CVPR, arXiv 1904.06627), as a sum and a count."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.losses.distances import cosines
from rayner.losses.masked import masked_logsumexp
from rayner.losses.positives import Pairs


def multi_similarity(
    anchors: Tensor,
    candidates: Tensor,
    pairs: Pairs,
    margin: float,
    base: float,
    positive_scale: float,
    negative_scale: float,
) -> tuple[Tensor, Tensor]:
    """Equation 15 over the pairs that equations 11 and 12 keep, summed over anchors.

    log(1 + sum over positives of e^(-a (s - b))) / a + log(1 + sum over negatives of e^(c (s - b))) / c. A
    negative is kept where its cosine s is above that of the anchor's farthest positive less the margin, a
    positive where it is below that of the nearest negative and the margin. An anchor without a positive, or
    without a negative, keeps none and adds 0.

    Args:
        anchors: [A, D] of any floating type.
        candidates: [C, D].
        pairs: which of the [A, C] pairs are positives and negatives.
        margin: of the choice of pairs, a cosine.
        base: b, the cosine around which pairs are weighed.
        positive_scale: a.
        negative_scale: c.

    Returns:
        The sum, a scalar in float32 at least, also under autocast, and A, an int64 scalar: add both up over
        all workers, then divide.
    """
    scores = cosines(anchors, candidates)
    number = torch.full((), len(scores), device=scores.device)
    if scores.numel() == 0:
        return scores.sum(), number
    with torch.no_grad():
        farthest = scores.masked_fill(~pairs.positive, torch.inf).amin(1, keepdim=True)
        nearest = scores.masked_fill(~pairs.negative, -torch.inf).amax(1, keepdim=True)
        positive = pairs.positive & (scores < nearest + margin)
        negative = pairs.negative & (scores > farthest - margin)
    apart = F.softplus(masked_logsumexp(-positive_scale * (scores - base), positive)) / positive_scale
    alike = F.softplus(masked_logsumexp(negative_scale * (scores - base), negative)) / negative_scale
    # A score that is no number is above and below none, and would keep no pair.
    return (apart + alike).sum() + 0 * scores.detach().sum(), number
