"""Scores of pairs against whether they are relevant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rayner.metrics.resampling import CONFIDENCE, ENDS

METRICS = ("accuracy", "precision", "recall", "f1", "mse")
THRESHOLD = 0.5
"""A pair with a higher score counts as relevant."""


def score_relevance(gold: Sequence[bool], scores: Sequence[float]) -> dict[str, Any]:
    """`accuracy, precision, recall, f1` of the relevant pairs, `mse` of the scores; None without pairs.

    Precision, recall and F1 are 1 where there is no relevant pair and none was taken for one.
    """
    if not len(gold):
        return dict.fromkeys(METRICS)
    found = _of_draws(np.asarray(gold, bool), np.asarray(scores, float), np.ones((1, len(gold)), np.int64))
    return dict(zip(METRICS, found[0].tolist(), strict=True))


def relevance_intervals(
    gold: Sequence[bool],
    scores: Sequence[float],
    groups: Sequence[str],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Percentile bootstrap intervals of the metrics of `score_relevance`, over groups.

    Args:
        groups: of each pair; the pairs of a sentence are not independent.

    Returns:
        Metric -> [low, high], or None with fewer than two groups; `confidence`; `resamples`.
    """
    names, group = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
    intervals: dict[str, Any] = dict.fromkeys(METRICS)
    if len(names) > 1:
        right, given, rng = np.asarray(gold, bool), np.asarray(scores, float), np.random.default_rng(seed)
        drawn = np.concatenate(
            [
                _of_draws(right, given, np.bincount(of_one, minlength=len(names))[None, group])
                for of_one in (rng.integers(0, len(names), len(names)) for _ in range(resamples))
            ]
        )
        ends = np.percentile(drawn, ENDS, axis=0)
        intervals |= dict(zip(METRICS, ends.T.tolist(), strict=True))
    return {**intervals, "confidence": CONFIDENCE, "resamples": resamples}


def _of_draws(gold: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The metrics [R, 5] of pairs that each count `weights` [R, N] times."""
    taken = scores > THRESHOLD
    total, hits = weights.sum(1), weights @ (gold & taken)
    answered, wanted = weights @ taken, weights @ gold

    def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
        return np.where(whole == 0, 1.0 * (answered + wanted == 0), part / np.maximum(whole, 1))

    return np.stack(
        [
            weights @ (gold == taken) / total,
            share(hits, answered),
            share(hits, wanted),
            share(2 * hits, answered + wanted),
            weights @ np.square(scores - gold) / total,
        ],
        axis=1,
    )
