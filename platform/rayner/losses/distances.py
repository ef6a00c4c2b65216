"""How far each anchor lies from each candidate, from dot products: no [A, C, D] tensor."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Distance = Literal["cosine", "euclidean", "squared_euclidean"]

_ROUNDING = 8
"""How many units in the last place of |x|^2 + |y|^2 the squared distance of equal rows may come to."""


def distances(anchors: Tensor, candidates: Tensor, kind: Distance) -> Tensor:
    """Distances [A, C] of anchors [A, D] to candidates [C, D], in float32 at least, also under autocast.

    `cosine` is 1 - cosine (papers/002, section 4, has all three). Euclidean distances that are zero but for
    rounding are zero, and pass no gradient: the root of a rounding error is large (3e-4 in float32, 1e-8 in
    float64, of rows of length 1) and differs with the number of rows that are multiplied at once.
    """
    if kind == "cosine":
        return (1 - cosines(anchors, candidates)).clamp_min(0)
    anchors, candidates = _precise(anchors), _precise(candidates)
    with torch.autocast(anchors.device.type, enabled=False):
        norms = anchors.square().sum(1)[:, None] + candidates.square().sum(1)
        squared = norms - 2 * anchors @ candidates.T
        zero = squared <= _ROUNDING * torch.finfo(norms.dtype).eps * norms
        if kind == "squared_euclidean":
            return squared.masked_fill(zero, 0)
        # The inner fill keeps the infinite slope of the root at zero out of the backward pass.
        return squared.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


def cosines(anchors: Tensor, candidates: Tensor) -> Tensor:
    """Cosines [A, C] of anchors [A, D] and candidates [C, D], in float32 at least, also under autocast."""
    anchors, candidates = _precise(anchors), _precise(candidates)
    with torch.autocast(anchors.device.type, enabled=False):
        return F.normalize(anchors, dim=1) @ F.normalize(candidates, dim=1).T


def _precise(rows: Tensor) -> Tensor:
    return rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows
