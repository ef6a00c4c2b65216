"""Margins of mentions as probabilities, type by type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

_LEAST_SLOPE = 0.01
"""So that of two margins the higher one always has the higher score."""
_LARGEST = 30.0
"""Log odds beyond this are 1 in single precision."""
_BELOW = (-2.0, -0.5, 0.0)
"""Knots up to the threshold; that of others decide the quantiles of the margins above it."""
_QUANTILES = 5
_MENTIONS_A_QUANTILE = 20
_SLOPE = 0.3
"""Before anything is known: log odds a unit of margin. Trained models are too certain of what they say with
more."""
_OF_POOLED, _OF_TYPES = 1.5, 0.3
"""Standard deviations of the priors, in log odds: of the value at the first knot, and of each rise."""


@dataclass(frozen=True, slots=True)
class MarginMap:
    """Log odds of being right: linear between the `knots` (margins, rising), where they are `log_odds`, and
    with the slopes `below` and `above` beyond the first and the last knot."""

    knots: tuple[float, ...]
    log_odds: tuple[float, ...]
    below: float
    above: float

    def of(self, margins: np.ndarray) -> np.ndarray:
        """Log odds [N] of margins [N]."""
        inside = np.interp(margins, self.knots, self.log_odds)
        lower = np.minimum(margins - self.knots[0], 0) * self.below
        return inside + lower + np.maximum(margins - self.knots[-1], 0) * self.above

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"knots": self.knots, "log_odds": self.log_odds, "below": self.below, "above": self.above}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> MarginMap:
        """What `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        knots, log_odds = (tuple(map(float, values[name])) for name in ("knots", "log_odds"))
        found = cls(knots, log_odds, float(values["below"]), float(values["above"]))
        rises = [*np.diff(knots), *np.diff(log_odds), found.below, found.above]
        if len(knots) != len(log_odds) or not knots or not np.isfinite(rises).all() or min(rises) <= 0:
            raise ValueError("no rising map")
        return found


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """A map from margins to probabilities for each type, and a pooled one for all others.

    Logistic regression on the margin (Platt, 1999) with a slope of its own between each two knots. All
    slopes are positive, so that mentions of a type are in the order of their margins. `mentions`: how many
    it was fitted on, by type. `thresholds`: what the threshold of a type was moved by before.
    """

    pooled: MarginMap
    types: Mapping[str, MarginMap] = field(default_factory=dict)
    mentions: Mapping[str, int] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def probability(self, name: str, margin: float) -> float:
        """That a mention of the type is right; the pooled map's for a type that it was not fitted on."""
        return float(_logistic(self.types.get(name, self.pooled).of(np.array([margin])))[0])

    def with_types(self, other: ScoreCalibration, names: Iterable[str]) -> ScoreCalibration:
        """This calibration, with the other's maps and thresholds of those types that it was fitted on."""
        names = list(names)
        new = [name for name in names if name in other.types]
        moved = {name: other.thresholds[name] for name in names if name in other.thresholds}
        return replace(
            self,
            types={**self.types, **{name: other.types[name] for name in new}},
            mentions={**self.mentions, **{name: other.mentions[name] for name in new}},
            thresholds={**self.thresholds, **moved},
        )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        types = {
            name: {"mentions": self.mentions[name], **found.to_json()} for name, found in self.types.items()
        }
        moved = {"thresholds": dict(self.thresholds)} if self.thresholds else {}
        return {"pooled": self.pooled.to_json(), "types": types, **moved}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ScoreCalibration:
        """What `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        types = {name: MarginMap.from_json(one) for name, one in values["types"].items()}
        mentions = {name: int(one["mentions"]) for name, one in values["types"].items()}
        thresholds = {name: float(shift) for name, shift in values.get("thresholds", {}).items()}
        if not np.isfinite([*thresholds.values()]).all():
            raise ValueError("a threshold is no number")
        return cls(MarginMap.from_json(values["pooled"]), types, mentions, thresholds)


UNCALIBRATED = ScoreCalibration(MarginMap((0.0,), (0.0,), 1.0, 1.0))
"""The scores of a recognizer without a calibration: the logistic of the margin."""


def fit_scores(types: Any, margins: Any, right: Any) -> ScoreCalibration:
    """The most probable maps, whatever the order of the mentions.

    The pooled map has a wide normal prior around log odds that rise slowly, the map of a type a narrow one
    around the pooled map: the fewer mentions a type has, the more it is like the others.

    Args:
        types: str [N]. margins: float [N]. right: bool [N]. At least one mention.
    """
    types, margins, right = np.asarray(types), np.asarray(margins, np.float64), np.asarray(right, bool)
    order = np.lexsort((right, margins))
    types, margins, right = types[order], margins[order], right[order]
    knots = _knots(margins)
    widths = _widths(knots)
    # The first weight is the log odds at the first knot: 0 at the threshold.
    start = np.array([knots[0] * _SLOPE, *(_SLOPE * widths)])
    pooled = _fit(margins, right, knots, start, _OF_POOLED)
    found, counts = {}, {}
    for name in sorted(set(types.tolist())):
        own = types == name
        found[name] = _map_of(knots, _fit(margins[own], right[own], knots, pooled, _OF_TYPES))
        counts[name] = int(own.sum())
    return ScoreCalibration(_map_of(knots, pooled), found, counts)


def _knots(margins: np.ndarray) -> np.ndarray:
    above = margins[margins > 0]
    count = min(_QUANTILES, len(above) // _MENTIONS_A_QUANTILE)
    quantiles = np.quantile(above, np.arange(1, count + 1) / (count + 1)) if count else np.zeros(0)
    knots = np.unique([*_BELOW, *quantiles.round(3).tolist()])
    return knots[np.diff(knots, prepend=-np.inf) >= 0.01]


def _widths(knots: np.ndarray) -> np.ndarray:
    """Of what lies below the first knot, between each two, and above the last; the outer ones count as 1."""
    return np.array([1.0, *np.diff(knots), 1.0])


def _fit(
    margins: np.ndarray, right: np.ndarray, knots: np.ndarray, centre: np.ndarray, deviation: float
) -> np.ndarray:
    """The log odds at the first knot, and the rise over each of `_widths`."""
    # A second to import, in each process of a cluster.
    from scipy.optimize import minimize

    features = _features(margins, knots)
    signs = np.where(right, 1.0, -1.0)

    def surprisal(weights: np.ndarray) -> tuple[float, np.ndarray]:
        odds = signs * (features @ weights)
        distance = (weights - centre) / deviation
        slope = -(signs * _logistic(-odds)) @ features + distance / deviation
        return float(np.logaddexp(0, -odds).sum() + distance @ distance / 2), slope

    bounds = [(None, None), *((_LEAST_SLOPE * width, None) for width in _widths(knots).tolist())]
    tight = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}
    return minimize(surprisal, centre, jac=True, bounds=bounds, method="L-BFGS-B", options=tight).x


def _features(margins: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """What each weight of `_fit` counts for: [N, 2 + knots]."""
    between = np.clip((margins[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
    outer = np.minimum(margins - knots[0], 0), np.maximum(margins - knots[-1], 0)
    return np.column_stack([np.ones_like(margins), outer[0], between, outer[1]])


def _map_of(knots: np.ndarray, weights: np.ndarray) -> MarginMap:
    first, below, *rises, above = weights.round(6).tolist()
    log_odds = np.cumsum([first, *rises]).round(6)
    return MarginMap(tuple(knots.tolist()), tuple(log_odds.tolist()), below, above)


def _logistic(log_odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(log_odds, -_LARGEST, _LARGEST)))
