"""The resamples of a bootstrap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CONFIDENCE = 0.95
"""Of all intervals."""
ENDS = (50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE))
"""The percentiles that an interval lies between."""
CELLS_PER_BATCH = 4_000_000
"""Numbers that the resamples of a batch hold."""


def draws(things: int, cells: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """The numbers of the things that are drawn, in batches [R, things].

    Args:
        cells: numbers that a resample holds.
    """
    rng, batch = np.random.default_rng(seed), max(1, CELLS_PER_BATCH // cells)
    for begin in range(0, resamples, batch):
        yield rng.integers(0, things, (min(batch, resamples - begin), things))


def times_drawn(rows: np.ndarray) -> np.ndarray:
    """How often each of N things is drawn, int64 [R, N], from the numbers of those drawn, [R, N]."""
    offsets = rows.shape[1] * np.arange(len(rows))[:, None]
    return np.bincount((rows + offsets).ravel(), minlength=rows.size).reshape(rows.shape)
