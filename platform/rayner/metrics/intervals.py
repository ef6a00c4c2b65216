"""Bootstrap confidence intervals of span scores, over documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rayner.data.schema import Document
from rayner.metrics.counts import SpanCounts, count_spans
from rayner.metrics.resampling import CONFIDENCE, ENDS, draws, times_drawn
from rayner.metrics.spans import precision_recall_f1

if TYPE_CHECKING:
    from scipy.sparse import csr_array

METRICS = ("precision", "recall", "f1")
_SCORES_AT_ONCE = 2_000_000


def span_intervals(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    types: Sequence[str] | None = None,
    *,
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
    intervals = bootstrap_counts(counts, resamples=resamples, seed=seed)
    return {**intervals, "confidence": CONFIDENCE, "resamples": resamples}


def bootstrap_counts(counts: SpanCounts, *, resamples: int, seed: int) -> dict[str, Any]:
    """The intervals of `span_intervals`, from counts."""
    # Column 0 is of all types together, column 1 + i of types[i]. Only columns with a mention have a place.
    columns = np.concatenate([np.zeros(len(counts.rows), np.int64), 1 + counts.columns])
    known, places = np.unique(columns, return_inverse=True)
    rows = np.concatenate([counts.rows, counts.rows])
    # Not in each process of a cluster: it takes a quarter of a second to import.
    from scipy.sparse import csr_array

    tables = [
        csr_array((np.concatenate([cells, cells]), (places, rows)), shape=(len(known), counts.documents))
        for cells in (counts.correct["exact"], counts.predicted, counts.gold)
    ]
    bounds: dict[int, dict[str, list[float]]] = {}
    step = max(1, _SCORES_AT_ONCE // resamples)
    # Each part draws the same documents again, which costs less than to keep the draws or all the scores.
    for begin in range(0, len(known) if counts.documents > 1 else 0, step):
        parts = [table[begin : begin + step] for table in tables]
        drawn = [_scores(parts, rows) for rows in draws(counts.documents, counts.documents, resamples, seed)]
        ends = np.percentile(np.concatenate(drawn, axis=-1), ENDS, axis=-1)  # [2, metrics, columns]
        for column, row in zip(known[begin : begin + step].tolist(), ends.T.tolist(), strict=True):
            bounds[column] = dict(zip(METRICS, row, strict=True))

    def of(column: int) -> dict[str, Any]:
        return bounds.get(column) or dict.fromkeys(METRICS)

    return {**of(0), "per_type": {name: of(1 + i) for i, name in enumerate(counts.types)}}


def _scores(tables: Sequence[csr_array], rows: np.ndarray) -> np.ndarray:
    """Scores [metrics, columns, R] of the documents drawn [R, documents], from tables of right, predicted and
    gold mentions [columns, documents].

    How often each document was drawn times its counts is one sparse product for all types.
    """
    times = np.ascontiguousarray(times_drawn(rows).T)
    correct, predicted, gold = (table @ times for table in tables)
    return np.stack(precision_recall_f1(correct, correct, predicted, gold))
