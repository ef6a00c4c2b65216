"""Centroids of vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from rayner.retrieval import exact

ROUNDS = 8
ROWS_PER_CENTROID = 64


def kmeans(vectors: Tensor, k: int, share: exact.Share = exact.alone) -> Tensor:
    """Lloyd's algorithm on a sample of rows: centroids [k, D] of vectors [M, D], M at least k.

    The sample and the start are drawn with a fixed seed. A centroid that is nearest to no row moves to a row
    of the sample. `share` is how the rows are assigned.
    """
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(vectors), generator=generator)[: ROWS_PER_CENTROID * k]
    sample = vectors[order.sort().values]
    centroids = sample[torch.randperm(len(sample), generator=generator)[:k]].clone()
    for _ in range(ROUNDS):
        nearest = exact.nearest_rows(sample, centroids, exact.half_squares(centroids), 1, share)[:, 0]
        sums = torch.zeros_like(centroids).index_add_(0, nearest, sample)
        counts = torch.bincount(nearest, minlength=k)
        centroids = sums / counts.clamp_min(1)[:, None]
        empty = (counts == 0).nonzero()[:, 0]
        centroids[empty] = sample[torch.randint(len(sample), (len(empty),), generator=generator)]
    return centroids
