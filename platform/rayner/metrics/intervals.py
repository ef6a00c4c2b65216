"""Bootstrap confidence intervals of span scores, over documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import bootstrap

from rayner.data.schema import Document
from rayner.metrics.counts import SpanCounts, count_spans
from rayner.metrics.spans import precision_recall_f1

METRICS = ("precision", "recall", "f1")
_CELLS_PER_BATCH = 4_000_000


def span_intervals(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    types: Sequence[str] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Percentile bootstrap intervals of precision, recall and F1, micro and per type.

    Whole documents are drawn again, since the mentions of one document are not independent. All scores share
    the same draws. A resample without a denominator scores 0, as `score_spans` does, so that a type found in
    few documents has a wide interval. With fewer than two documents, or no mention at all, predicted or gold,
    nothing can be estimated and the interval is None.

    Returns:
        `precision, recall, f1`: [low, high], fractions, or None; `per_type`: type -> the same three;
        `confidence`; `resamples`.

    Raises:
        CorpusError: the ids of gold and predicted documents do not agree.
    """
    counts = count_spans(gold, predicted, types)
    intervals = bootstrap_counts(counts, confidence=confidence, resamples=resamples, seed=seed)
    return {**intervals, "confidence": confidence, "resamples": resamples}


def bootstrap_counts(counts: SpanCounts, *, confidence: float, resamples: int, seed: int) -> dict[str, Any]:
    """The intervals of `span_intervals`, from counts."""
    tables = np.stack([counts.correct["exact"], counts.predicted, counts.gold])  # [3, documents, types]
    tables = np.concatenate([tables.sum(2, keepdims=True), tables], 2).astype(np.float64)
    documents, columns = tables.shape[1:]
    known = tables[1:].sum((0, 1)) > 0
    bounds: list[list[Any]] = [[None] * columns for _ in METRICS]
    if documents > 1 and known.any():
        result = bootstrap(
            (np.arange(documents),),
            _Statistic(tables),
            n_resamples=resamples,
            batch=max(1, _CELLS_PER_BATCH // documents),
            confidence_level=confidence,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
        pairs = np.stack([result.low, result.high], -1).tolist()  # [metrics, columns, 2]
        bounds = [[pair if known[i] else None for i, pair in enumerate(row)] for row in pairs]
    scores = [dict(zip(METRICS, column, strict=True)) for column in zip(*bounds, strict=True)]
    return {**scores[0], "per_type": dict(zip(counts.types, scores[1:], strict=True))}


class _Statistic:
    """Scores of resampled documents: rows [..., documents] of indices -> [metrics, columns, ...].

    How often each document was drawn times its counts is one matrix product for all types.
    """

    def __init__(self, tables: np.ndarray) -> None:
        self.tables = tables

    def __call__(self, rows: np.ndarray, axis: int = -1) -> np.ndarray:
        documents = rows.shape[axis]
        rows = np.moveaxis(rows, axis, -1).reshape(-1, documents)
        offsets = documents * np.arange(len(rows))[:, None]
        drawn = np.bincount((rows + offsets).ravel(), minlength=rows.size).reshape(rows.shape)
        correct, predicted, gold = drawn @ self.tables
        scores = np.stack(precision_recall_f1(correct, correct, predicted, gold))
        return np.moveaxis(scores, 1, 2)
