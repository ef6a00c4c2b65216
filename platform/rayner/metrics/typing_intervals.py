"""Bootstrap confidence intervals of scores of fine types, over documents."""

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
    sizes: Sequence[int],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Percentile bootstrap intervals of the metrics of `score_types`.

    Documents are drawn again, with all their items. With fewer than two, the intervals are None.

    Args:
        sizes: how many items each document has, in their order.

    Returns:
        Metric -> [low, high], fractions, or None; `confidence`; `resamples`.

    Raises:
        ValueError: the numbers of items differ.
    """
    tables = type_tables(gold, predicted)
    terms = tables.of(np.ones(len(tables.types), bool)).terms()
    documents = len(sizes)
    of = np.repeat(np.arange(documents), sizes)
    terms = np.stack([np.bincount(of, column, documents) for column in terms.T], 1)
    intervals: dict[str, Any] = dict.fromkeys(METRICS)
    if documents > 1:
        rng = np.random.default_rng(seed)
        batch = max(1, _CELLS_PER_BATCH // documents)
        draws = [min(batch, resamples - begin) for begin in range(0, resamples, batch)]
        drawn = (times_drawn(rng.integers(0, documents, (size, documents))) for size in draws)
        sums = np.concatenate([times @ terms for times in drawn])
        ends = [50 * (1 - confidence), 50 * (1 + confidence)]
        intervals = {m: np.percentile(drawn, ends).tolist() for m, drawn in scores_of(sums).items()}
    return {**intervals, "confidence": confidence, "resamples": resamples}
