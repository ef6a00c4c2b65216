"""The contrast of Gaussian embeddings (papers/004, equations 2 to 6; CONTaiNER, Das et al. 2022).

As a sum and a count: add both up over all workers, then divide once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from rayner.losses.masked import masked_logsumexp
from rayner.losses.positives import Pairs

_ROWS_AT_ONCE = 512


class Gaussians(NamedTuple):
    """Normal distributions with diagonal covariance."""

    mean: Tensor
    """[N, D], of any floating type"""
    variance: Tensor
    """[N, D], above zero"""

    def rows(self) -> Tensor:
        """[N, 2 D], as vectors are gathered over workers."""
        return torch.cat(self, 1)

    @classmethod
    def of(cls, rows: Tensor) -> Gaussians:
        """The inverse of `rows`."""
        return cls(*rows.chunk(2, 1))

    def entropies(self) -> Tensor:
        """[N] the differential entropy in nats, divided by D: the mean of log(2 pi e variance) / 2."""
        return (math.log(2 * math.pi * math.e) + self.variance.log()).mean(1) / 2


class CandidateGaussians(NamedTuple):
    """Gaussians that many others are held against, as `divergences` reads them, float64."""

    centre: Tensor
    """[D] the mean of the means"""
    turned: Tensor
    """[4 D + 2, C]"""

    @classmethod
    def of(cls, candidates: Gaussians) -> CandidateGaussians:
        """Those of Gaussians; gradients go through."""
        mean, variance = (part.double() for part in candidates)
        with torch.autocast(mean.device.type, enabled=False):
            # Divergences do not change when all means move by as much: near zero, less of them cancels.
            centre = mean.detach().mean(0) if len(mean) else mean.new_zeros(mean.shape[1])
            mean = mean - centre
            precision = 1 / variance
            weighted = precision * mean
            constant = (weighted * mean).sum(1, keepdim=True)
            parts = [variance + mean**2, precision, mean, weighted, torch.ones_like(constant), constant]
            return cls(centre, torch.cat(parts, 1).T)


def divergences(anchors: Gaussians, candidates: Gaussians | CandidateGaussians) -> Tensor:
    """The mean of KL(a || c) and KL(c || a), [A, C], in float32 at least, also under autocast (equation 3).

    The determinants cancel, and 4 d + 2 D = sum of va / vc + vc / va + (ma - mc)^2 (1 / va + 1 / vc) is one
    matrix product of [A, 4 D + 2] and [C, 4 D + 2]. Its terms are as large as the squared distance of a mean
    from the centre, in deviations, and cancel where Gaussians are near each other: the product is made in
    float64, without which those of variance 1e-6 were off by more than 10 nats.
    """
    dtype = torch.promote_types(anchors.mean.dtype, torch.float32)
    centre, turned = CandidateGaussians.of(candidates) if isinstance(candidates, Gaussians) else candidates
    mean, variance = (part.double() for part in anchors)
    with torch.autocast(mean.device.type, enabled=False):
        mean = mean - centre
        precision = 1 / variance
        weighted = precision * mean
        constant = (weighted * mean).sum(1, keepdim=True) - 2 * mean.shape[1]
        left = [precision, variance + mean**2, -2 * weighted, -2 * mean, constant, torch.ones_like(constant)]
        # In parts, so that the pairs are in memory in float64 only some at once.
        rows = (torch.cat(left, 1) / 4).split(_ROWS_AT_ONCE)
        return torch.cat([(part @ turned).to(dtype) for part in rows])


def gaussian_contrast(anchors: Gaussians, candidates: Gaussians, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """-log of the mean of exp(-d) over an anchor's positives beside its sum over all others, by anchor.

    Equation 5, with log-sum-exp, so that large divergences do not underflow, and with natural logarithms. As
    in the published code, anchors without a positive do not count (equation 6 divides by all).

    Args:
        anchors: A Gaussians.
        candidates: C Gaussians.
        pairs: which of the [A, C] pairs are positives and negatives. The denominator has both.

    Returns:
        The sum over anchors, a scalar in float32 at least, and the number of anchors with a positive, an
        int64 scalar. Without any, both are 0.
    """
    scores = -divergences(anchors, candidates)
    counts = pairs.positive.sum(1)
    counted = counts > 0
    among = masked_logsumexp(scores, pairs.positive | pairs.negative)
    of_positives = masked_logsumexp(scores, pairs.positive)
    # Left out before they are subtracted: both are -inf where an anchor has no one.
    log_means = torch.where(counted, of_positives, 0) - counts.clamp_min(1).to(scores.dtype).log()
    return (torch.where(counted, among, 0) - log_means).sum(), counted.sum()
