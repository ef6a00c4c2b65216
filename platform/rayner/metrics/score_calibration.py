"""Margins of mentions as probabilities, type by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

_LEAST_SLOPE = 0.01
"""So that of two margins the higher one always has the higher score."""
_LARGEST = 30.0
"""Log odds beyond this are 1 in single precision."""


class MarginMap(NamedTuple):
    """Log odds of being right: `intercept` at the threshold, with a slope for margins below it and one for
    those above."""

    intercept: float
    below: float
    above: float

    def log_odds(self, margins: np.ndarray) -> np.ndarray:
        """[N] of margins [N]."""
        return _features(margins) @ np.array(self)


LOGISTIC = MarginMap(0.0, 1.0, 1.0)
"""What a margin is without calibration: log odds."""
_OF_POOLED = MarginMap(2.0, 1.0, 1.0)
"""Standard deviations of the prior of the pooled map around `LOGISTIC`."""
_OF_TYPES = MarginMap(0.5, 0.25, 0.25)
"""Those of the maps of types around the pooled one."""


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """A map from margins to probabilities for each type, and a pooled one for all others.

    Logistic regression on the margin (Platt, 1999) with one slope on each side of the threshold. All slopes
    are positive, so that mentions of a type are in the order of their margins. `mentions`: how many it was
    fitted on, by type.
    """

    pooled: MarginMap
    types: Mapping[str, MarginMap] = field(default_factory=dict)
    mentions: Mapping[str, int] = field(default_factory=dict)

    def probability(self, name: str, margin: float) -> float:
        """That a mention of the type is right; the pooled map's for a type that it was not fitted on."""
        found = self.types.get(name, self.pooled).log_odds(np.array([margin]))
        return float(_logistic(found)[0])

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "pooled": self.pooled._asdict(),
            "types": {
                name: {**found._asdict(), "mentions": self.mentions[name]}
                for name, found in self.types.items()
            },
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ScoreCalibration:
        """What `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        types = {name: _map_of(one) for name, one in values["types"].items()}
        mentions = {name: int(one["mentions"]) for name, one in values["types"].items()}
        return cls(_map_of(values["pooled"]), types, mentions)


def fit_scores(types: Any, margins: Any, right: Any) -> ScoreCalibration:
    """The most probable maps, whatever the order of the mentions.

    The pooled map has a wide normal prior around the logistic function, the map of a type a narrow one
    around the pooled map: the fewer mentions a type has, the more it is like the others.

    Args:
        types: str [N]. margins: float [N]. right: bool [N]. At least one mention.
    """
    types, margins, right = np.asarray(types), np.asarray(margins, np.float64), np.asarray(right, bool)
    order = np.lexsort((right, margins))
    types, margins, right = types[order], margins[order], right[order]
    pooled = _fit(margins, right, LOGISTIC, _OF_POOLED)
    found, counts = {}, {}
    for name in sorted(set(types.tolist())):
        own = types == name
        found[name] = _fit(margins[own], right[own], pooled, _OF_TYPES)
        counts[name] = int(own.sum())
    return ScoreCalibration(pooled, found, counts)


def _fit(margins: np.ndarray, right: np.ndarray, prior: MarginMap, spread: MarginMap) -> MarginMap:
    # A second to import, in each process of a cluster.
    from scipy.optimize import minimize

    features, centre, scale = _features(margins), np.array(prior), np.array(spread)
    signs = np.where(right, 1.0, -1.0)

    def surprisal(weights: np.ndarray) -> tuple[float, np.ndarray]:
        odds = signs * (features @ weights)
        distance = (weights - centre) / scale
        slope = -(signs * _logistic(-odds)) @ features + distance / scale
        return float(np.logaddexp(0, -odds).sum() + distance @ distance / 2), slope

    bounds = [(None, None), (_LEAST_SLOPE, None), (_LEAST_SLOPE, None)]
    tight = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(surprisal, centre, jac=True, bounds=bounds, method="L-BFGS-B", options=tight)
    return MarginMap(*(round(value, 6) for value in found.x.tolist()))


def _features(margins: np.ndarray) -> np.ndarray:
    return np.stack([np.ones_like(margins), np.minimum(margins, 0), np.maximum(margins, 0)], -1)


def _logistic(log_odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(log_odds, -_LARGEST, _LARGEST)))


def _map_of(values: Mapping[str, Any]) -> MarginMap:
    found = MarginMap(*(float(values[name]) for name in MarginMap._fields))
    if not np.isfinite(found).all() or min(found.below, found.above) <= 0:
        raise ValueError(f"{found} is no rising map")
    return found
