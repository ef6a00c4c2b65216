"""How far each anchor lies from each candidate, from dot products: no [A, C, D] tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

Distance = Literal["cosine", "euclidean", "squared_euclidean"]

_NUMBERS_AT_ONCE = 1 << 22
"""How many numbers the differences of the nearest rows may take at once."""


def distances(anchors: Tensor, candidates: Tensor, kind: Distance) -> Tensor:
    """Distances [A, C] of anchors [A, D] to candidates [C, D], in float32 at least, also under autocast.

    `cosine` is 1 - cosine (papers/002, section 4, has all three). Euclidean distances of equal rows are
    exactly zero and pass no gradient, on any processor and with any number of rows. The relative error of a
    squared distance is at most the root of `rounding_error`: 1e-2 in float32, 4e-7 in float64, for D = 768.
    """
    if kind == "cosine":
        return (1 - cosines(anchors, candidates)).clamp_min(0)
    anchors, candidates = _precise(anchors), _precise(candidates)
    with torch.autocast(anchors.device.type, enabled=False):
        squared = _Squared.apply(anchors, candidates)
        if kind == "squared_euclidean":
            return squared
        # The inner fill keeps the infinite slope of the root at zero out of the backward pass.
        zero = squared == 0
        return squared.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


def rounding_error(width: int, dtype: torch.dtype) -> float:
    """How far |x|^2 + |y|^2 - 2 x.y may be off by rounding, as a part of the computed |x|^2 + |y|^2.

    A dot product of D terms has an error of at most gamma(D) sum_k |x_k y_k|, in any order of summation and
    with or without fused multiply-add, where gamma(n) = n u / (1 - n u) and u = eps / 2 (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd edition, 2002, section 3.1: Lemma 3.1 for gamma, equation 3.5 for
    the dot product). With n = |x|^2 + |y|^2, the computed sum of the two norms is off by at most
    gamma(D + 1) n and 2 x.y by gamma(D) n, so their difference, rounded, by at most
    (1 + u) (gamma(D) + gamma(D + 1)) n and u times itself. As (1 + u) gamma(k) <= gamma(k + 1) (Lemma 3.3),
    and n is at most its computed value / (1 - gamma(D + 1)), the first is at most
    2 gamma(D + 2) / (1 - gamma(D + 2)) = (D + 2) eps / (1 - (D + 2) eps) of the computed n; the second and
    the rounding of what is compared with are within one more term. Nothing may overflow or underflow.
    """
    share = (width + 3) * torch.finfo(dtype).eps
    return share / (1 - share) if share < 1 else torch.inf


class _Squared(torch.autograd.Function):
    """|x|^2 + |y|^2 - 2 x.y of all pairs of rows; of near ones the sum of their squared differences.

    The root of a rounding error is large (3e-4 in float32, 1e-8 in float64, of rows of length 1), and differs
    between processors and with the number of rows that are multiplied at once. Pairs are near where the
    result is below the root of `rounding_error` times the norms: that bounds the relative error of the others
    by the same root, and of near ones the sum is precise. Near pairs are few, except where all rows collapse.
    """

    @staticmethod
    def forward(ctx: Any, anchors: Tensor, candidates: Tensor) -> Tensor:
        norms = anchors.square().sum(1)[:, None] + candidates.square().sum(1)
        squared = norms - 2 * anchors @ candidates.T
        near = (squared <= rounding_error(anchors.shape[1], norms.dtype) ** 0.5 * norms).nonzero()
        for i, j in _parts(near, anchors.shape[1]):
            squared[i, j] = (anchors[i] - candidates[j]).square().sum(1)
        ctx.save_for_backward(anchors, candidates, near)
        return squared

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (gradient,) = gradients
        anchors, candidates, near = ctx.saved_tensors
        far = gradient.index_put(tuple(near.T), gradient.new_zeros(()))
        left = far.sum(1)[:, None] * anchors - far @ candidates
        right = far.sum(0)[:, None] * candidates - far.T @ anchors
        for i, j in _parts(near, anchors.shape[1]):
            slopes = gradient[i, j][:, None] * (anchors[i] - candidates[j])
            left.index_add_(0, i, slopes)
            right.index_add_(0, j, slopes, alpha=-1)
        return 2 * left, 2 * right


def _parts(pairs: Tensor, width: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Row numbers of anchors and of candidates, some pairs [P, 2] at a time."""
    for part in pairs.split(max(1, _NUMBERS_AT_ONCE // max(1, width))):
        yield part[:, 0], part[:, 1]


def cosines(anchors: Tensor, candidates: Tensor) -> Tensor:
    """Cosines [A, C] of anchors [A, D] and candidates [C, D], in float32 at least, also under autocast."""
    anchors, candidates = _precise(anchors), _precise(candidates)
    with torch.autocast(anchors.device.type, enabled=False):
        return F.normalize(anchors, dim=1) @ F.normalize(candidates, dim=1).T


def _precise(rows: Tensor) -> Tensor:
    return rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows
