"""How well vectors find others of their group."""

from __future__ import annotations

import numpy as np

_CELLS = 2**24
"""Scores in memory at a time."""


def reciprocal_ranks(vectors: np.ndarray, groups: np.ndarray, apart: np.ndarray | None = None) -> np.ndarray:
    """One over the rank of the nearest other vector of the same group, for each vector that has one.

    All other vectors are candidates, by cosine; of equally near ones those of the group come last.

    Args:
        vectors: [N, D].
        groups: int [N].
        apart: int [N]; where given, vectors of another group that are equal in it are no candidates.

    Returns:
        [Q], Q <= N, in the order of the vectors.
    """
    vectors = vectors.astype(np.float32)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    found = [np.zeros(0)]
    at_once = max(1, _CELLS // max(1, len(unit)))
    for begin in range(0, len(unit), at_once):
        rows = np.arange(begin, min(begin + at_once, len(unit)))
        scores = unit[rows] @ unit.T
        scores[np.arange(len(rows)), rows] = -np.inf
        same = groups[rows][:, None] == groups
        same[np.arange(len(rows)), rows] = False
        best = np.where(same, scores, -np.inf).max(1)
        other = ~same if apart is None else ~same & (apart[rows][:, None] != apart)
        ranks = 1 + ((scores >= best[:, None]) & other).sum(1)
        # A vector's own cell is -inf: it counts only where there is no other of the group.
        found.append(1 / ranks[same.any(1)])
    return np.concatenate(found)
