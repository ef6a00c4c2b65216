"""When an answer is NIL: the probability that the first candidate is right, and where it is too low."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from rayner.errors import InputError

OperatingPoint = Literal["balanced", "high_precision", "high_recall"]
OPERATING_POINTS: tuple[OperatingPoint, ...] = get_args(OperatingPoint)

PRECISION = 0.95
"""What `high_precision` aims at: the share of right answers among those that are not NIL."""
RECALL = 0.95
"""What `high_recall` aims at: the share of right first candidates that are kept."""
_PAIRS = ("means", "scales", "weights")


@dataclass(frozen=True, slots=True)
class NilCalibration:
    """A logistic model of score and margin, and a threshold on its probability for each operating point.

    `means` and `scales` standardize score and margin, `weights` are those of the two. `thresholds`: below it
    an answer is NIL.
    """

    means: tuple[float, float]
    scales: tuple[float, float]
    weights: tuple[float, float]
    intercept: float
    thresholds: Mapping[str, float]

    def probability(self, score: Any, margin: Any) -> np.ndarray:
        """That the first candidate is right: [N], from scores [N] and margins [N].

        A margin that is not finite (no next entity) counts as the mean; without a candidate (a score of minus
        infinity) the probability is 0.
        """
        score = np.asarray(score, np.float64)
        values = _features(score, np.asarray(margin, np.float64), self.means)
        values = (values - self.means) / self.scales
        logits = values @ np.array(self.weights) + self.intercept
        return np.where(np.isneginf(score), 0.0, 1 / (1 + np.exp(-np.clip(logits, -60, 60))))

    def threshold(self, operating_point: str) -> float:
        """The probability below which an answer is NIL.

        Raises:
            InputError: no such operating point.
        """
        if operating_point not in self.thresholds:
            what, hint = f"no operating point {operating_point!r}", f"one of {', '.join(self.thresholds)}"
            raise InputError("--operating-point", what, hint)
        return self.thresholds[operating_point]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> NilCalibration:
        """What `to_json` gave."""
        means, scales, weights = ((float(a), float(b)) for a, b in (values[name] for name in _PAIRS))
        thresholds = {name: float(value) for name, value in values["thresholds"].items()}
        return cls(means, scales, weights, float(values["intercept"]), thresholds)


def fit_nil(score: Any, margin: Any, right: Any) -> NilCalibration:
    """Fit on mentions whose entity is known, with it in the index and with it held out.

    `balanced` is the threshold with the largest mean of two shares, right candidates kept and wrong ones
    refused, which does not depend on how many of each there are. `high_precision` is the lowest one, not
    below `balanced`, at which `PRECISION` of the answers are right, or else the one where most are;
    `high_recall` the highest one, not above `balanced`, that keeps `RECALL` of the right candidates.

    Args:
        score: of the first candidate [N].
        margin: to the next entity [N].
        right: whether the first candidate is right [N].

    Raises:
        InputError: all candidates are right, or none: there is nothing to tell apart.
    """
    score, margin = np.asarray(score, np.float64), np.asarray(margin, np.float64)
    right = np.asarray(right, bool)
    if right.all() or not right.any():
        lack = "wrong" if right.any() else "right"
        what = f"no {lack} candidate among {len(right)} to calibrate with"
        raise InputError("the NIL threshold", what, "add mentions with and without an entity")
    known = np.isfinite(score)
    finite = np.isfinite(margin)
    means = (score[known].mean(), margin[finite].mean() if finite.any() else 0.0)
    values = _features(score, margin, means)
    values[~known, 0] = score[known].min()
    scales = tuple(float(scale) if scale > 1e-9 else 1.0 for scale in values[known].std(0))
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit((values - means) / scales, right)
    weights = (float(model.coef_[0, 0]), float(model.coef_[0, 1]))
    fitted = NilCalibration(
        (float(means[0]), float(means[1])), (scales[0], scales[1]), weights, float(model.intercept_[0]), {}
    )
    thresholds = _thresholds(fitted.probability(score, margin), right)
    return NilCalibration(fitted.means, fitted.scales, weights, fitted.intercept, thresholds)


def _features(score: np.ndarray, margin: np.ndarray, means: tuple[float, float]) -> np.ndarray:
    """[N, 2] without infinities."""
    known = np.where(np.isfinite(score), score, means[0])
    return np.stack([known, np.where(np.isfinite(margin), margin, means[1])], -1)


def _thresholds(probability: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Cuts in the middle between two probabilities; an answer is kept at or above the cut."""
    distinct = np.unique(probability)
    cuts = np.concatenate([[0.0], (distinct[:-1] + distinct[1:]) / 2])
    of_right = np.sort(probability[right])
    kept = len(of_right) - np.searchsorted(of_right, cuts)
    answered = len(probability) - np.searchsorted(np.sort(probability), cuts)
    recall = kept / len(of_right)
    refused = 1 - (answered - kept) / (~right).sum()
    precision = kept / answered
    balanced = int(np.argmax(recall + refused))
    precise = np.flatnonzero(precision >= PRECISION)
    lowest = int(precise[0]) if len(precise) else int(np.argmax(precision))
    highest = int(np.flatnonzero(recall >= RECALL)[-1])
    chosen = {
        "balanced": balanced,
        "high_precision": max(balanced, lowest),
        "high_recall": min(balanced, highest),
    }
    return {name: float(cuts[index]) for name, index in chosen.items()}
