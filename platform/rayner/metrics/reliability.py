"""How far probabilities are what they say: reliability, expected calibration error, risk and coverage."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

BINS = 10


class Reliability(NamedTuple):
    """Bins [B] of about equal weight, by rising probability.

    `predicted` is the mean probability of a bin, `observed` the share that was right, `weight` its share of
    all; the three are weighted means and sums.
    """

    predicted: np.ndarray
    observed: np.ndarray
    weight: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error (Naeini, Cooper and Hauskrecht, 2015), a fraction."""
        return float(self.weight @ np.abs(self.predicted - self.observed))


def reliability(probability: Any, right: Any, weight: Any = None, bins: int = BINS) -> Reliability:
    """Probabilities held against what happened.

    Args:
        probability: [N], at least one.
        right: [N] booleans.
        weight: [N], not all zero; equal weights by default.
        bins: at most so many; equal probabilities are of one bin.
    """
    probability, right, weight = _arrays(probability, right, weight)
    distinct, place = np.unique(probability, return_inverse=True)
    of_value = np.bincount(place, weight, len(distinct))
    # The bin in which the middle of a value's weight lies.
    middle = (np.cumsum(of_value) - of_value / 2) / weight.sum()
    bin_ = np.minimum((middle * bins).round(9).astype(np.int64), bins - 1)[place]
    total = np.bincount(bin_, weight, bins)
    kept = total > 0
    means = [np.bincount(bin_, weight * values, bins)[kept] / total[kept] for values in (probability, right)]
    return Reliability(means[0], means[1], total[kept] / weight.sum())


class RiskCoverage(NamedTuple):
    """The share of wrong answers among the most confident, for each share [C] that is answered, rising.

    `area` is the mean risk over all coverages (Geifman and El-Yaniv, 2017), each answer counted in its
    middle: 0 is best.
    """

    coverage: np.ndarray
    risk: np.ndarray
    area: float


def risk_coverage(confidence: Any, right: Any, weight: Any = None) -> RiskCoverage:
    """What is wrong among the most confident; what has equal confidence is answered together.

    Args:
        confidence: [N], at least one; infinities are in order.
        right: [N] booleans.
        weight: [N], not all zero; equal weights by default.
    """
    confidence, right, weight = _arrays(confidence, right, weight)
    place = np.unique(-confidence, return_inverse=True)[1]
    total, wrong = np.bincount(place, weight), np.bincount(place, weight * (1 - right))
    total, wrong = total[kept := total > 0], wrong[kept]
    covered, missed = np.cumsum(total), np.cumsum(wrong)
    # In the middle of what is answered together, as if its answers came in equal parts.
    middle = (missed - wrong / 2) / (covered - total / 2)
    return RiskCoverage(covered / covered[-1], missed / covered, float(middle @ total / covered[-1]))


def _arrays(values: Any, right: Any, weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = np.asarray(values, np.float64)
    given = np.ones(len(values)) if weight is None else np.asarray(weight, np.float64)
    return values, np.asarray(right, np.float64), given
