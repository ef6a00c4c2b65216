"""How well vectors find others of their group."""

from __future__ import annotations

import numpy as np

_CELLS = 2**24
"""Scores in memory at a time."""


def reciprocal_ranks(
    vectors: np.ndarray, groups: np.ndarray, apart: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One over the rank of the nearest other vector of the same group, for each vector that has one.

    All other vectors are candidates, by cosine; of equally near ones those of the group come last, and of
    those whose cosine is no number.

    Args:
        vectors: [N, D].
        groups: int [N].
        apart: int [N].

    Returns:
        [Q], Q <= N, in the order of the vectors; and the same without those candidates of other groups that
        are equal in `apart`.
    """
    vectors = vectors.astype(np.float32)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    found, found_apart = [np.zeros(0)], [np.zeros(0)]
    at_once = max(1, _CELLS // max(1, len(unit)))
    for begin in range(0, len(unit), at_once):
        rows = np.arange(begin, min(begin + at_once, len(unit)))
        own = np.arange(len(rows)), rows
        scores = unit[rows] @ unit.T
        same = groups[rows][:, None] == groups
        same[own] = False
        best = np.where(same, scores, -np.inf).max(1)
        ranked = same.any(1)
        # Not `>=`: vectors that are no numbers would each be the nearest of their group.
        nearer = ~(scores < best[:, None]) & ~same
        nearer[own] = False
        found.append(1 / (1 + nearer.sum(1))[ranked])
        nearer &= apart[rows][:, None] != apart
        found_apart.append(1 / (1 + nearer.sum(1))[ranked])
    return np.concatenate(found), np.concatenate(found_apart)
