"""The resamples of a bootstrap."""

from __future__ import annotations

import numpy as np


def times_drawn(rows: np.ndarray) -> np.ndarray:
    """How often each of N things is drawn, int64 [R, N], from the numbers of those drawn, [R, N]."""
    offsets = rows.shape[1] * np.arange(len(rows))[:, None]
    return np.bincount((rows + offsets).ravel(), minlength=rows.size).reshape(rows.shape)
