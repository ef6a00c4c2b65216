"""Nearest neighbours by vectors rounded to bfloat16, which some processors multiply more than twice as fast.

What is found is compared again by the vectors themselves.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import torch
from torch import Tensor

from rayner.retrieval import exact

OVERSAMPLING = 2
"""Rows that are compared again for each that is wanted."""
FASTER = 0.7
"""Of float32's time: with less than this, bfloat16 is the faster one and not merely measured at another
moment."""
_SHAPE, _ROUNDS = (64, 384, 16_384), 5


def rounded(vectors: np.ndarray) -> np.ndarray:
    """The bits [M, D] int16 of vectors [M, D] float32, less their mean, in bfloat16.

    What all vectors share says nothing of which is nearest, and takes digits: products between 0.5 and 1 are
    told apart by no less than 0.004.
    """
    bits = np.empty(vectors.shape, np.int16)
    mean = torch.as_tensor(vectors.mean(0, dtype=np.float64).astype(np.float32))
    for begin in range(0, len(vectors), exact.ROWS):
        block = torch.as_tensor(vectors[begin : begin + exact.ROWS]) - mean
        bits[begin : begin + len(block)] = block.bfloat16().view(torch.int16).numpy()
    return bits


def nearest_of_rounded(queries: Tensor, vectors: Tensor, bits: np.ndarray, k: int) -> np.ndarray:
    """The rows [Q, k] of the largest products, best first, of those that are large in bfloat16.

    Args:
        queries: [Q, D] float32.
        vectors: [M, D] float32.
        bits: `rounded` of the vectors.
    """
    table = torch.as_tensor(bits).view(torch.bfloat16)
    _, likely = exact.nearest(queries.bfloat16(), table, None, OVERSAMPLING * k)
    # One query at a time: of all together, the vectors would be held as often as they are found.
    scores = torch.stack([vectors[rows] @ query for query, rows in zip(queries, likely, strict=True)])
    return likely.gather(1, scores.topk(min(k, scores.shape[1]), 1).indices).numpy()


@cache
def is_faster() -> bool:
    """Whether this processor multiplies matrices of bfloat16 faster, by a timing of some milliseconds."""
    rows, size, columns = _SHAPE
    left, right = torch.ones(rows, size), torch.ones(columns, size)
    seconds = [_seconds(left.to(kind), right.to(kind)) for kind in (torch.float32, torch.bfloat16)]
    return seconds[1] < FASTER * seconds[0]


def _seconds(left: Tensor, right: Tensor) -> float:
    taken = []
    for _ in range(_ROUNDS):
        # Not on the clock: what runs beside would decide.
        begin = time.thread_time()
        torch.mm(left, right.T)
        taken.append(time.thread_time() - begin)
    return min(taken)
