"""Bootstrap confidence intervals of scores of fine types, over items."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from rayner.metrics.resampling import times_drawn
from rayner.metrics.typing import METRICS, scores_of, type_tables

_CELLS_PER_BATCH = 4_000_000


def typing_intervals(
    gold: Sequence[Collection[str]],
    predicted: Sequence[Collection[str]],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Percentile bootstrap intervals of the metrics of `score_types`.

    Items are drawn again. With fewer than two, the intervals are None.

    Returns:
        Metric -> [low, high], fractions, or None; `confidence`; `resamples`.

    Raises:
        ValueError: the numbers of items differ.
    """
    tables = type_tables(gold, predicted)
    terms = tables.of(np.ones(len(tables.types), bool)).terms()
    items = len(terms)
    intervals: dict[str, Any] = dict.fromkeys(METRICS)
    if items > 1:
        rng = np.random.default_rng(seed)
        batch = max(1, _CELLS_PER_BATCH // items)
        sizes = [min(batch, resamples - begin) for begin in range(0, resamples, batch)]
        sums = np.concatenate([times_drawn(rng.integers(0, items, (size, items))) @ terms for size in sizes])
        ends = [50 * (1 - confidence), 50 * (1 + confidence)]
        intervals = {m: np.percentile(drawn, ends).tolist() for m, drawn in scores_of(sums).items()}
    return {**intervals, "confidence": confidence, "resamples": resamples}
