"""Scores of all spans up to a width, without a vector per span.

A span vector is a sum of three parts: one of its start, one of its end, one of its width (papers/000,
equation 4, with the weights of its linear layer split). So its product with a type is a sum of three
products, and its norm follows from the products of the parts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_TINY = 1e-24
_LEAST_ROWS = 4


class SpanParts(NamedTuple):
    """What the scores of spans are made of: those of the span from i to i + w are
    `(first[i] + last[i + w] + width[w]) * inverse_norms[i, w]`."""

    first: Tensor
    """[B, K, L]"""
    last: Tensor
    """[B, K, L]"""
    width: Tensor
    """[1, K, W]"""
    inverse_norms: Tensor
    """[B, L, W]"""

    def first_cells(self) -> Tensor:
        """The scores [B, K] of the first sub-word alone, [CLS], as `score_spans` has them."""
        summed = self.first[:, :, 0] + self.last[:, :, 0] + self.width[:, :, 0]
        return summed * self.inverse_norms[:, None, 0, 0]


def score_positions(vectors: Tensor, types: Tensor) -> Tensor:
    """The cosine of each vector [B, L, D] with each type [K, D], times the type's norm: [B, K, L]."""
    return products(types, F.normalize(vectors, dim=-1, eps=_TINY**0.5))


def score_spans(starts: Tensor, ends: Tensor, widths: Tensor, types: Tensor) -> Tensor:
    """The cosine of the span vectors `starts[i] + ends[i + w] + widths[w]` with the types, times their norms.

    Args:
        starts: [B, L, D]
        ends: [B, L, D]
        widths: [1 or B, W, D]
        types: [K, D]

    Returns:
        [B, K, L, W]; where i + w >= L, the score of some other vector.
    """
    of_starts, of_ends, of_widths = (products(types, part) for part in (starts, ends, widths))
    scores: Tensor = _Compose.apply(of_starts, of_ends, of_widths, inverse_norms(starts, ends, widths))  # type: ignore[assignment]
    return scores


def score_span_vectors(vectors: Tensor, types: Tensor) -> Tensor:
    """The same from span vectors [B, L, W, D] that had to be made, one by one: [B, K, L, W]."""
    return torch.einsum("kd,blwd->bklw", types, F.normalize(vectors, dim=-1, eps=_TINY**0.5))


def span_vectors(starts: Tensor, ends: Tensor, widths: Tensor) -> Tensor:
    """All span vectors, [B, L, W, D], from the parts that `score_spans` takes."""
    count = widths.shape[1]
    following = F.pad(ends, (0, 0, 0, count - 1)).unfold(1, count, 1).transpose(2, 3)
    return starts.unsqueeze(2) + following + widths.unsqueeze(1)


def enough_rows(rows: Tensor) -> Tensor:
    """The rows [N, D] with rows of zeros after them, if they are few.

    BLAS multiplies fewer than four rows by another kernel, which adds up in another order: with four at least
    no row's product depends on how many others there are.
    """
    return F.pad(rows, (0, 0, 0, max(0, _LEAST_ROWS - len(rows))))


def products(types: Tensor, vectors: Tensor) -> Tensor:
    """[B, K, L] from types [K, D] and vectors [B, L, D]."""
    return (enough_rows(types) @ vectors.transpose(1, 2))[:, : len(types)]


def inverse_norms(starts: Tensor, ends: Tensor, widths: Tensor) -> Tensor:
    """1 / |start + end + width| of every span, [B, L, W]."""
    count = widths.shape[1]
    ends = F.pad(ends, (0, 0, 0, count))
    products = _skew(starts @ ends.transpose(1, 2), count)
    products = products + starts @ widths.transpose(1, 2)
    products = products + _skew(widths @ ends.transpose(1, 2), starts.shape[1]).transpose(1, 2)
    squares = ends.square().sum(2)[:, :-1].unfold(1, count, 1)
    squares = squares + starts.square().sum(2).unsqueeze(2) + widths.square().sum(2).unsqueeze(1)
    # Where the parts nearly cancel, rounding decides: keep the cosine bounded there.
    floor = squares.detach() * torch.finfo(squares.dtype).eps + _TINY
    return torch.maximum(squares + 2 * products, floor).rsqrt()


def _skew(matrix: Tensor, count: int) -> Tensor:
    """Cells (i, i + w) of `matrix` [B, N, N + count] or wider, as (i, w): [B, N, count]."""
    batch, rows, columns = matrix.shape
    flat = F.pad(matrix.reshape(batch, rows * columns), (0, rows))
    return flat.view(batch, rows, columns + 1)[:, :, :count]


class _Compose(torch.autograd.Function):
    """(a[i] + e[i + w] + c[w]) * inverse[i, w], in one buffer: memory traffic is all that it costs."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, e: Tensor, c: Tensor, inverse: Tensor) -> Tensor:
        widths = c.shape[2]
        scores = a.unsqueeze(3) + F.pad(e, (0, widths - 1)).unfold(2, widths, 1)
        scores.add_(c.unsqueeze(2)).mul_(inverse.unsqueeze(1))
        ctx.save_for_backward(scores, inverse)
        ctx.shared = c.shape[0] == 1
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        scores, inverse = ctx.saved_tensors
        of_inverse = (gradient * scores).sum(1).div_(inverse)
        inner = gradient * inverse.unsqueeze(1)
        length, widths = inverse.shape[1:]
        of_ends = inner[..., 0].clone()
        for width in range(1, min(widths, length)):
            of_ends[:, :, width:] += inner[:, :, : length - width, width]
        of_widths = inner.sum((0, 2)).unsqueeze(0) if ctx.shared else inner.sum(2)
        return inner.sum(3), of_ends, of_widths, of_inverse
