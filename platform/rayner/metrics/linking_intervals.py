"""Bootstrap confidence intervals of linking scores, over distinct strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rayner.data.mention_strings import fold
from rayner.metrics.linking import TOP, GivenAnswer, GoldMention, Judged, judge, reciprocal
from rayner.metrics.resampling import CONFIDENCE, ENDS, draws, times_drawn

METRICS = (*(f"top{k}" for k in TOP), "mrr", "nil_precision", "nil_recall", "nil_auc", "accuracy")


def linking_intervals(
    gold: Sequence[GoldMention],
    answers: Sequence[GivenAnswer],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Percentile bootstrap intervals of the metrics of `score_linking`.

    Distinct strings (ignoring case) are drawn again, with all their mentions: equal mentions have equal
    answers and are not independent. A resample that lacks what a metric is about (NIL mentions, say) is left
    out of that metric's interval. With fewer than two strings, or where the metric itself is None, the
    interval is None.

    Returns:
        Metric -> [low, high], fractions, or None; `confidence`; `resamples`.
    """
    judged = judge(gold, answers)
    number: dict[str, int] = {}
    string = np.array([number.setdefault(fold(m.text), len(number)) for m in gold], np.int64)
    intervals: dict[str, Any] = dict.fromkeys(METRICS)
    if len(number) > 1:
        scores = _Scores(judged, string)
        rows = draws(len(number), len(gold), resamples, seed)
        drawn = np.concatenate([scores.of(of_batch) for of_batch in rows])
        for name, column, known in zip(METRICS, drawn.T, scores.known(), strict=True):
            if known:
                intervals[name] = np.nanpercentile(column, ENDS).tolist()
    return {**intervals, "confidence": CONFIDENCE, "resamples": resamples}


class _Scores:
    """The metrics of resampled strings. A mention weighs as often as its string was drawn."""

    def __init__(self, judged: Judged, string: np.ndarray) -> None:
        self._string = string
        linkable, nil, refused = judged.linkable, ~judged.linkable, ~judged.linked
        hits = [linkable & (judged.rank <= k) for k in TOP]
        parts = [
            *hits,
            np.where(linkable, reciprocal(judged.rank), 0),
            nil & refused,
            nil & refused,
            judged.right,
        ]
        wholes = [linkable] * (len(TOP) + 1) + [refused, nil, np.ones(len(string))]
        # One matrix product for all ratios; the area comes between the last two.
        self._parts = np.stack(parts, 1).astype(np.float64)
        self._wholes = np.stack(wholes, 1).astype(np.float64)
        self._has_nil = bool(nil.any())
        self._order = np.argsort(judged.confidence, kind="stable")
        sorted_ = judged.confidence[self._order]
        self._starts = np.flatnonzero(np.append(True, sorted_[1:] != sorted_[:-1]))
        self._linkable = linkable[self._order]

    def known(self) -> list[bool]:
        """Which metrics are not None on the mentions themselves."""
        defined = np.isfinite(self.of(np.arange(int(self._string.max()) + 1)[None])[0])
        return [
            bool(d) and (self._has_nil or not m.startswith("nil"))
            for d, m in zip(defined, METRICS, strict=True)
        ]

    def of(self, rows: np.ndarray) -> np.ndarray:
        """[draws, metrics], NaN for 0 / 0, from the numbers of the strings drawn [draws, strings]."""
        weights = times_drawn(rows)[:, self._string].astype(np.float64)
        with np.errstate(invalid="ignore"):
            parts, wholes = weights @ self._parts, weights @ self._wholes
            ratios = parts / wholes
        # 0 where nothing was refused, as in `score_linking`, and about nothing without a NIL mention.
        precision, recall = METRICS.index("nil_precision"), METRICS.index("nil_recall")
        ratios[:, precision] = np.where(wholes[:, precision] > 0, ratios[:, precision], 0)
        ratios[wholes[:, recall] == 0, precision] = np.nan
        return np.insert(ratios, -1, self._area(weights[:, self._order]), axis=1)

    def _area(self, weights: np.ndarray) -> np.ndarray:
        """Under the ROC curve: how often a linkable mention is above a NIL one, ties counting half."""
        high = np.add.reduceat(weights * self._linkable, self._starts, axis=1)
        low = np.add.reduceat(weights * ~self._linkable, self._starts, axis=1)
        below = np.cumsum(low, 1) - low / 2
        with np.errstate(invalid="ignore"):
            return (high * below).sum(1) / (high.sum(1) * low.sum(1))
