"""When an answer is NIL: how probable it is that the first candidate is right, and where NIL is better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from rayner.errors import InputError

OperatingPoint = Literal["accuracy", "high_precision", "high_recall"]
OPERATING_POINTS: tuple[OperatingPoint, ...] = get_args(OperatingPoint)

NIL_SHARE = 0.1
"""The share of mentions without an entity, where nobody names another."""
PRECISION = 0.95
"""What `high_precision` aims at: the share of right answers among those that are not NIL."""
RECALL = 0.95
"""What `high_recall` aims at: the share of right first candidates that are kept."""
RIGHT, WRONG, NIL = 0, 1, 2
"""The first candidate is right, or another entity of the index is, or none."""
CANDIDATES = 5
"""What `evidence` looks at."""
FEATURES = ("score", "margin", "lead")
MOST_SAMPLES = 3000
"""Mentions of the calibration that are kept with it."""
_FOLDS = 5


def evidence(scores: Sequence[Sequence[float]]) -> np.ndarray:
    """What speaks for the first candidates: [N, 3], the columns `FEATURES`.

    `score` of the first, `margin` to the second, `lead` over the mean of the second to fifth. Without any
    candidate they are minus infinity, without a second one `margin` and `lead` are infinite.

    Args:
        scores: of the candidates of each mention, best first; only the first `CANDIDATES` count.
    """
    rows = np.full((len(scores), len(FEATURES)), -np.inf)
    for row, (first, *others) in ((r, s) for r, s in zip(rows, scores, strict=True) if len(s)):
        others = others[: CANDIDATES - 1]
        leads = (first - others[0], first - sum(others) / len(others)) if others else (np.inf, np.inf)
        row[:] = first, *leads
    return rows


@dataclass(frozen=True, slots=True)
class Odds:
    """A logistic model of standardized evidence: log odds = weights · values + intercept.

    No weight is negative, so that more evidence never makes the first candidate less probable.
    """

    weights: tuple[float, ...]
    intercept: float

    def of(self, values: np.ndarray) -> np.ndarray:
        """Log odds [N] of values [N, F]."""
        return np.clip(values @ np.array(self.weights) + self.intercept, -60, 60)


@dataclass(frozen=True, slots=True)
class Sample:
    """Mentions of a calibration, each judged by a model that was fitted without it.

    `against_wrong`, `against_nil`: log odds [N] as `NilCalibration.log_odds` gives them. `outcome`: RIGHT,
    WRONG or NIL. `weight`: of mentions that have an entity in the index they sum to 1, of the others too.
    """

    against_wrong: tuple[float, ...]
    against_nil: tuple[float, ...]
    outcome: tuple[int, ...]
    weight: tuple[float, ...]

    def columns(self, nil_share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """[N] each: log odds against NIL, the probability of being right, the outcome, and the weight, all
        for a share of NIL."""
        outcome = np.array(self.outcome)
        log_odds = np.stack([self.against_wrong, self.against_nil], -1)
        weight = np.array(self.weight) * np.where(outcome == NIL, nil_share, 1 - nil_share)
        return log_odds[:, 1], probability_of(log_odds, nil_share), outcome, weight


@dataclass(frozen=True, slots=True)
class NilCalibration:
    """Two logistic models of the evidence for a first candidate: right against wrong, and right against NIL.

    They hold for as many mentions with an entity as without. For another share of NIL the odds against NIL
    are multiplied by the ratio of the priors, which is exact as long as the share alone changes, not what
    mentions with and without an entity look like (Elkan, 2001; Saerens, Latinne and Decaestecker, 2002).

    Args:
        means, scales: standardize the evidence.
        wrong: the odds of right to wrong.
        nil: the odds of right to NIL.
        sample: cross-fitted, what `high_precision`, `high_recall` and the report look at.
    """

    means: tuple[float, ...]
    scales: tuple[float, ...]
    wrong: Odds
    nil: Odds
    sample: Sample

    def log_odds(self, given: np.ndarray) -> np.ndarray:
        """Of right to wrong and of right to NIL: [N, 2], from evidence [N, 3], for as many mentions with an
        entity as without.

        What is infinite (no next entity) counts as the mean. Without a candidate both are minus infinity.
        """
        values = _standardized(given, self.means, self.scales)
        found = np.stack([self.wrong.of(values), self.nil.of(values)], -1)
        return np.where(np.isneginf(given[:, :1]), -np.inf, found)

    def probability(self, given: np.ndarray, nil_share: float = NIL_SHARE) -> np.ndarray:
        """That the first candidate is right: [N], from evidence [N, 3]."""
        return probability_of(self.log_odds(given), nil_share)

    def threshold(self, operating_point: str, nil_share: float = NIL_SHARE) -> float:
        """The log odds of right to NIL, as in `log_odds`, below which an answer is NIL.

        `accuracy` links where right is at least as probable as NIL, which makes the most right answers
        expected, NIL included. `high_precision` is the lowest threshold, not below `accuracy`, at which
        `PRECISION` of the answers of the sample are right, or else the one where most are; `high_recall` the
        highest, not above `accuracy`, that keeps `RECALL` of the sample's right candidates.

        Raises:
            InputError: no such operating point.
        """
        check_operating_point(operating_point)
        most_accurate = _prior(nil_share)
        if operating_point == "accuracy" or nil_share == 1:
            return most_accurate
        odds, _, outcome, weight = self.sample.columns(nil_share)
        distinct, place = np.unique(odds, return_inverse=True)
        cuts = np.concatenate([[-np.inf], (distinct[:-1] + distinct[1:]) / 2])
        right = _from(np.bincount(place, weight * (outcome == RIGHT)))
        if operating_point == "high_recall":
            kept = cuts[right >= RECALL * right[0] - 1e-12]
            return float(min(most_accurate, kept[-1]))
        above = np.searchsorted(distinct, most_accurate)
        precision = (right / np.maximum(_from(np.bincount(place, weight)), 1e-12))[above:]
        if not len(precision):
            return most_accurate
        precise = np.flatnonzero(precision >= PRECISION)
        chosen = precise[0] if len(precise) else np.argmax(precision)
        return float(cuts[above + chosen] if chosen else most_accurate)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> NilCalibration:
        """What `to_json` gave.

        Raises:
            KeyError: it is of another kind, such as calibrations were before.
        """
        means, scales = (tuple(map(float, values[name])) for name in ("means", "scales"))
        wrong, nil = (
            Odds(tuple(map(float, model["weights"])), float(model["intercept"]))
            for model in (values["wrong"], values["nil"])
        )
        sample = Sample(**{name: tuple(values["sample"][name]) for name in Sample.__slots__})
        return cls(means, scales, wrong, nil, sample)


def probability_of(log_odds: np.ndarray, nil_share: float) -> np.ndarray:
    """That the first candidate is right: [N], from log odds [N, 2] and a share of NIL."""
    with np.errstate(over="ignore", invalid="ignore"):
        odds = np.exp(-log_odds) * (1.0, math.exp(min(_prior(nil_share), 700.0)))
        found = 1 / (1 + odds.sum(1))
    return np.where(np.isneginf(log_odds[:, 0]) | (nil_share == 1), 0.0, found)


def check_operating_point(name: str) -> None:
    """Refuse a name that no operating point has.

    Raises:
        InputError: it names those that there are.
    """
    if name not in OPERATING_POINTS:
        what, hint = f"no operating point {name!r}", f"one of {', '.join(OPERATING_POINTS)}"
        raise InputError("operating_point", what, hint)


def check_nil_share(value: float) -> float:
    """The value, if it is a share.

    Raises:
        InputError: it lies outside [0, 1], or is no number.
    """
    if not 0 <= value <= 1:
        raise InputError("nil_share", f"is {value:g}, and a share lies in [0, 1]", "0.1 is one in ten")
    return float(value)


def fit_nil(given: Any, outcome: Any, weight: Any = None, group: Any = None) -> NilCalibration:
    """Fit on mentions whose entity is known, with it in the index and with it taken out.

    Args:
        given: their evidence [N, 3].
        outcome: RIGHT, WRONG or NIL [N].
        weight: [N]; only the ratios within the mentions with an entity, and within those without, matter.
        group: [N] integers: mentions of one group are cross-fitted together; by default each is its own.

    Raises:
        InputError: no first candidate is right, or none is NIL: there is nothing to tell apart.
    """
    given, outcome = np.asarray(given, np.float64), np.asarray(outcome)
    for kind, lack in ((RIGHT, "no right candidate"), (NIL, "no NIL")):
        if not (outcome == kind).any():
            what = f"{lack} among {len(outcome)} to calibrate with"
            raise InputError("the NIL calibration", what, "add mentions with and without an entity")
    weight = np.ones(len(outcome)) if weight is None else np.asarray(weight, np.float64)
    for side in (outcome == NIL, outcome != NIL):
        weight = np.where(side, weight / weight[side].sum(), weight)
    group = np.arange(len(outcome)) if group is None else np.asarray(group)
    known = np.isfinite(given[:, 0])
    fitted = _fit(given[known], outcome[known], weight[known])
    log_odds = fitted.log_odds(given)
    numbers, place = np.unique(group, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(len(numbers)) % _FOLDS)[place]
    for held_out in range(_FOLDS):
        rest = known & (fold != held_out)
        if all((outcome[rest] == kind).any() for kind in (RIGHT, NIL)):
            without = _fit(given[rest], outcome[rest], weight[rest])
            log_odds[fold == held_out] = without.log_odds(given[fold == held_out])
    return NilCalibration(
        fitted.means, fitted.scales, fitted.wrong, fitted.nil, _sample(log_odds, outcome, weight)
    )


def _fit(given: np.ndarray, outcome: np.ndarray, weight: np.ndarray) -> NilCalibration:
    finite = np.where(np.isfinite(given), given, np.nan)
    # With one entity in the index no margin is finite, and there is nothing to learn from it.
    finite = np.where(np.isfinite(finite).any(0), finite, 0.0)
    means, scales = np.nanmean(finite, 0), np.nanstd(finite, 0)
    scales = np.where(scales > 1e-9, scales, 1.0)
    values = _standardized(given, means, scales)
    right = outcome == RIGHT
    of_wrong, of_nil = (right | (outcome == other) for other in (WRONG, NIL))
    return NilCalibration(
        tuple(means.tolist()),
        tuple(scales.tolist()),
        _odds(values[of_wrong], right[of_wrong], weight[of_wrong]),
        _odds(values[of_nil], right[of_nil], weight[of_nil]),
        Sample((), (), (), ()),
    )


def _odds(values: np.ndarray, right: np.ndarray, weight: np.ndarray) -> Odds:
    """Of right to not right. What would speak for the wrong side is left out, the worst first."""
    weights = np.zeros(values.shape[1])
    if right.all():
        # Rule of succession: that none was wrong does not make it impossible.
        return Odds(tuple(weights.tolist()), math.log(len(right) + 1))
    from sklearn.linear_model import LogisticRegression

    used = np.flatnonzero(values.std(0) > 0)
    weight = weight * len(weight) / weight.sum()
    while len(used):
        model = LogisticRegression(max_iter=1000).fit(values[:, used], right, sample_weight=weight)
        if model.coef_[0].min() >= 0:
            weights[used] = model.coef_[0]
            return Odds(tuple(weights.tolist()), float(model.intercept_[0]))
        used = np.delete(used, model.coef_[0].argmin())
    return Odds(tuple(weights.tolist()), math.log(weight[right].sum() / weight[~right].sum()))


def _standardized(given: np.ndarray, means: Any, scales: Any) -> np.ndarray:
    means = np.array(means)
    return (np.where(np.isfinite(given), given, means) - means) / np.array(scales)


def _sample(log_odds: np.ndarray, outcome: np.ndarray, weight: np.ndarray) -> Sample:
    kept = np.arange(len(outcome))
    if len(kept) > MOST_SAMPLES:
        kept = np.sort(np.random.default_rng(0).permutation(len(kept))[:MOST_SAMPLES])
        for side in (outcome == NIL, outcome != NIL):
            weight = np.where(side, weight / max(weight[kept][side[kept]].sum(), 1e-12), weight)
    # Without a candidate the odds are minus infinity, which JSON has not.
    rounded = np.maximum(log_odds[kept], -100.0).round(4)
    columns = (rounded[:, 0], rounded[:, 1], outcome[kept], weight[kept].round(9))
    return Sample(*(tuple(column.tolist()) for column in columns))


def _prior(nil_share: float) -> float:
    """The log odds of NIL before anything is known of a mention."""
    if nil_share in (0, 1):
        return -math.inf if nil_share == 0 else math.inf
    return math.log(nil_share / (1 - nil_share))


def _from(masses: np.ndarray) -> np.ndarray:
    """The sums from each place on."""
    return np.cumsum(masses[::-1])[::-1]
