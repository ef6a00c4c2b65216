"""Calibrations of NIL as checkpoints had them before there was a share of NIL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rayner.metrics.nil import NIL_SHARE, check_operating_point

_NAMES = {"accuracy": "balanced"}
"""What an operating point was called."""


@dataclass(frozen=True, slots=True)
class EarlierNil:
    """A logistic model of score and margin, and for each operating point the probability below which an
    answer is NIL. It answers as `NilCalibration` does, but holds for the mentions that it was fitted on:
    a share of NIL changes nothing.
    """

    means: tuple[float, float]
    scales: tuple[float, float]
    weights: tuple[float, float]
    intercept: float
    thresholds: Mapping[str, float]

    def log_odds(self, given: np.ndarray) -> np.ndarray:
        """Of right to wrong, which it does not tell from NIL, and of right to NIL: [N, 2], from evidence
        [N, 3]. What is infinite counts as the mean; without a candidate they are minus infinity."""
        values = given[:, : len(self.means)]
        values = (np.where(np.isfinite(values), values, self.means) - self.means) / self.scales
        found = np.clip(values @ np.array(self.weights) + self.intercept, -60, 60)
        return np.where(np.isneginf(given[:, :1]), -np.inf, np.stack([found, found], -1))

    def probability(self, given: np.ndarray, nil_share: float = NIL_SHARE) -> np.ndarray:
        """That the first candidate is right: [N], from evidence [N, 3]."""
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-self.log_odds(given)[:, 1]))

    def threshold(self, operating_point: str, nil_share: float = NIL_SHARE) -> float:
        """The log odds below which an answer is NIL.

        Raises:
            InputError: no such operating point.
        """
        check_operating_point(operating_point)
        threshold = self.thresholds[_NAMES.get(operating_point, operating_point)]
        with np.errstate(divide="ignore"):
            return float(np.log(threshold) - np.log1p(-threshold))

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EarlierNil:
        """What `to_json` gave.

        Raises:
            KeyError: it is of another kind.
        """
        pairs = (values[name] for name in ("means", "scales", "weights"))
        means, scales, weights = ((float(a), float(b)) for a, b in pairs)
        thresholds = {name: float(value) for name, value in values["thresholds"].items()}
        return cls(means, scales, weights, float(values["intercept"]), thresholds)
