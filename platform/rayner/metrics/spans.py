"""Precision, recall and F1 of typed spans, as sets: nesting and overlap need no convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rayner.data.schema import Document
from rayner.metrics.counts import SpanCounts, count_spans


def score_spans(
    gold: Sequence[Document], predicted: Sequence[Document], types: Sequence[str] | None = None
) -> dict[str, Any]:
    """Score predicted mentions against gold ones.

    A mention is right if its document, start, end and type are. `start_f1` and `end_f1` ask for the type and
    that boundary only; `loose_f1` for the type and a shared character (papers/000, Table 8): there precision
    is the part of the predictions that overlap a gold mention, recall the part of the gold mentions that a
    prediction overlaps. Predictions of types that a document was not annotated for do not count; `ignored`
    says how many.

    A ratio without a denominator is 0, as in CoNLL's and seqeval's scores: precision without predictions,
    recall without gold mentions, F1 without either. Types without either are left out of `macro_f1`.

    Args:
        gold, predicted: the same documents, by `document_id`, in any order.
        types: the types to score; None means those that occur in gold or predictions.

    Returns:
        Fractions `precision, recall, f1` (micro), `macro_f1, start_f1, end_f1, loose_f1`; `per_type`: type ->
        `precision, recall, f1, support` (gold mentions); `support`; `ignored`.

    Raises:
        CorpusError: the ids of the two do not agree.
    """
    return summarize_counts(count_spans(gold, predicted, types))


def summarize_counts(counts: SpanCounts) -> dict[str, Any]:
    """The dictionary that `score_spans` describes, from counts."""
    predicted, gold = counts.per_type(counts.predicted), counts.per_type(counts.gold)
    correct = counts.per_type(counts.correct["exact"])
    rows = precision_recall_f1(correct, correct, predicted, gold)
    occurs = (predicted + gold) > 0
    micro = {name: _micro(counts, name) for name in counts.correct}
    precision, recall, f1 = micro["exact"]
    return {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "macro_f1": float(rows[2][occurs].mean()) if occurs.any() else 0.0,
        **{f"{name}_f1": micro[name][2] for name in ("start", "end", "loose")},
        "support": int(gold.sum()),
        "ignored": counts.ignored,
        "per_type": {
            name: {
                "precision": float(rows[0][i]),
                "recall": float(rows[1][i]),
                "f1": float(rows[2][i]),
                "support": int(gold[i]),
            }
            for i, name in enumerate(counts.types)
        },
    }


def precision_recall_f1(
    correct: np.ndarray, found: np.ndarray, predicted: np.ndarray, gold: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """correct / predicted, found / gold and their harmonic mean, elementwise; 0 where a denominator is 0."""
    precision = correct / np.maximum(predicted, 1)
    recall = found / np.maximum(gold, 1)
    total = precision + recall
    return precision, recall, 2 * precision * recall / np.where(total == 0, 1.0, total)


def _micro(counts: SpanCounts, match: str) -> tuple[float, float, float]:
    sums = (counts.correct[match].sum(), counts.found[match].sum(), counts.predicted.sum(), counts.gold.sum())
    precision, recall, f1 = precision_recall_f1(*(np.asarray(n) for n in sums))
    return float(precision), float(recall), float(f1)
