"""The marginal likelihood of BioSyn (Sung et al. 2020, ACL, arXiv 2005.00239), as a sum and a count."""

from __future__ import annotations

import torch
from torch import Tensor

from rayner.losses.distances import cosines
from rayner.losses.masked import masked_logsumexp
from rayner.losses.positives import Pairs


def marginal_likelihood(
    anchors: Tensor, candidates: Tensor, pairs: Pairs, temperature: float, count: int
) -> tuple[Tensor, Tensor]:
    """Equations 6 and 7: -log of the probability of all positives together among an anchor's top candidates,
    summed over anchors.

    log(sum of e^(s/t)) over the `count` candidates of the highest cosines s, less the same over those of them
    that are positives. Candidates as near as the last of them are among them. As published, an anchor without
    a positive among them adds 0 and learns nothing.

    Args:
        anchors: [A, D] of any floating type.
        candidates: [C, D].
        pairs: which of the [A, C] pairs are positives and negatives.
        temperature: t, by which cosines are divided.
        count: the top k.

    Returns:
        The sum, a scalar in float32 at least, also under autocast, and A, an int64 scalar: add both up over
        all workers, then divide.
    """
    scores = cosines(anchors, candidates) / temperature
    number = torch.full((), len(scores), device=scores.device)
    if scores.numel() == 0:
        return scores.sum(), number
    with torch.no_grad():
        others = scores.masked_fill(~(pairs.positive | pairs.negative), -torch.inf)
        last = others.topk(min(count, others.shape[1])).values[:, -1:]
        kept = (others >= last) & ~others.isneginf()
        positive = kept & pairs.positive
    missing = masked_logsumexp(scores, kept) - masked_logsumexp(scores, positive)
    # A score that is no number is among no top candidates, and would keep none.
    return missing[positive.any(1)].sum() + 0 * scores.detach().sum(), number
