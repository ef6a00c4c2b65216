"""Bootstrap confidence intervals of scores of fine types, over documents."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from rayner.metrics.resampling import CONFIDENCE, ENDS, draws, times_drawn
from rayner.metrics.typing import METRICS, scores_of, type_tables


def typing_intervals(
    gold: Sequence[Collection[str]],
    predicted: Sequence[Collection[str]],
    sizes: Sequence[int],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Percentile bootstrap intervals of the metrics of `score_types`.

    Documents that have items are drawn again, with all of them. With fewer than two, the intervals are None.

    Args:
        sizes: how many items each document has, in their order.

    Returns:
        Metric -> [low, high], fractions, or None; `confidence`; `resamples`.

    Raises:
        ValueError: the numbers of items differ.
    """
    tables = type_tables(gold, predicted)
    terms = tables.of(np.ones(len(tables.types), bool)).terms()
    sizes = [size for size in sizes if size]
    documents = len(sizes)
    of = np.repeat(np.arange(documents), sizes)
    terms = np.stack([np.bincount(of, column, documents) for column in terms.T], 1)
    intervals: dict[str, Any] = dict.fromkeys(METRICS)
    if documents > 1:
        rows = draws(documents, documents, resamples, seed)
        sums = np.concatenate([times_drawn(of_batch) @ terms for of_batch in rows])
        intervals = {m: np.percentile(drawn, ENDS).tolist() for m, drawn in scores_of(sums).items()}
    return {**intervals, "confidence": CONFIDENCE, "resamples": resamples}
