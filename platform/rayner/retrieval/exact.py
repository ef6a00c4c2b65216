"""Exact nearest neighbours: a product of matrices, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

ROWS = 65_536
QUERIES = 256
_GROUP = 32

Share = Callable[[Tensor, Sequence[np.ndarray], Callable[[np.ndarray], Tensor]], None]
"""Fills rows, those of each part with what a function makes of it: here, or several processes together."""


def nearest(queries: Tensor, vectors: Tensor, offsets: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of `queries @ vectors.T + offsets`, and where they are.

    Args:
        queries: [Q, D], on the device of the vectors, and of their type.
        vectors: [M, D] float32 or bfloat16.
        offsets: [M] float32; None is zero.

    Returns:
        Values [Q, k] float32 and row numbers [Q, k], best first; fewer columns where there are fewer rows.
    """
    k = min(k, len(vectors))
    parts = [
        _of_batch(queries[i : i + QUERIES], vectors, offsets, k) for i in range(0, len(queries), QUERIES)
    ]
    if not parts:
        return queries.new_zeros(0, k), torch.zeros(0, k, dtype=torch.long, device=queries.device)
    return torch.cat([values for values, _ in parts]), torch.cat([rows for _, rows in parts])


def alone(rows: Tensor, parts: Sequence[np.ndarray], work: Callable[[np.ndarray], Tensor]) -> None:
    """Fill the rows in this process."""
    for part in parts:
        rows[part] = work(part)


def nearest_rows(
    queries: Tensor, vectors: Tensor, offsets: Tensor | None, k: int, share: Share = alone
) -> Tensor:
    """The row numbers [Q, k] of `nearest`, batch by batch; all on the CPU."""
    found = torch.empty(len(queries), min(k, len(vectors)), dtype=torch.long)
    parts = np.split(np.arange(len(queries)), range(QUERIES, len(queries), QUERIES))
    share(found, parts, lambda part: nearest(queries[part], vectors, offsets, k)[1])
    return found


def half_squares(vectors: Tensor) -> Tensor:
    """The offsets [M] that make `nearest` find the rows at the smallest Euclidean distance."""
    blocks = [vectors[begin : begin + ROWS].square().sum(1) for begin in range(0, len(vectors), ROWS)]
    return torch.cat(blocks).mul_(-0.5)


def _of_batch(queries: Tensor, vectors: Tensor, offsets: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
    best_values, best_rows = [], []
    for begin in range(0, len(vectors), ROWS):
        block = slice(begin, begin + ROWS)
        scores = (queries @ vectors[block].T).float()
        if offsets is not None:
            scores += offsets[block]
        values, rows = largest(scores, min(k, scores.shape[1]))
        best_values.append(values)
        best_rows.append(rows + begin)
    values, rows = torch.cat(best_values, 1), torch.cat(best_rows, 1)
    values, places = values.topk(k, 1)
    return values, rows.gather(1, places)


def largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row of `scores` [Q, M] and their places, [Q, k] each, in no order.

    They lie in the k groups with the largest maxima, and maxima cost a small part of a selection.
    """
    groups = scores.shape[1] // _GROUP
    if groups <= 4 * k:
        return scores.topk(k, 1, sorted=False)
    grouped = scores[:, : groups * _GROUP].unflatten(1, (groups, _GROUP))
    chosen = grouped.amax(2).topk(k, 1, sorted=False).indices
    inner = grouped.gather(1, chosen[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
    rest = scores[:, groups * _GROUP :]
    values, places = torch.cat([inner, rest], 1).topk(k, 1, sorted=False)
    inside = places - inner.shape[1] + groups * _GROUP
    of_group = places.clamp(max=inner.shape[1] - 1)
    found = chosen.gather(1, of_group // _GROUP) * _GROUP + of_group % _GROUP
    return values, torch.where(places < inner.shape[1], found, inside)
