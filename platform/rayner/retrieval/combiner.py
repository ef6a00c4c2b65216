"""How the two sides of an index make one score: a weight, or a logistic model of what both say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rayner.retrieval.names import Found

FEATURES = ("dense", "lexical", "dense_margin", "lexical_margin")


def features(dense: np.ndarray, lexical: np.ndarray, first: np.ndarray) -> np.ndarray:
    """What speaks for candidates: [P, 4], the columns `FEATURES`.

    A margin is how far a candidate's score lies above the best of the others of its query: below 0 for all
    but the best one, 0 where it has no others.

    Args:
        dense, lexical: scores [P], those of a query side by side.
        first: where the candidates of each query begin, ascending; every query has some.
    """
    margins = [_margins(scores, first) for scores in (dense, lexical)]
    return np.stack([dense, lexical, *margins], -1).astype(np.float64)


def _margins(scores: np.ndarray, first: np.ndarray) -> np.ndarray:
    sizes = np.diff(np.append(first, len(scores)))
    best = np.repeat(np.maximum.reduceat(scores, first), sizes)
    is_best = scores == best
    alone = is_best & (np.repeat(np.add.reduceat(is_best, first), sizes) == 1)
    second = np.repeat(np.maximum.reduceat(np.where(alone, -np.inf, scores), first), sizes)
    others = np.where(alone, second, best)
    return np.where(np.isneginf(others), 0.0, scores - others)


@dataclass(frozen=True, slots=True)
class Combiner:
    """The log odds that a candidate is right: a weighted sum of its `features`, and `intercept`.

    No weight is below 0, so that a higher score of a side never makes a candidate worse.
    """

    dense: float
    lexical: float
    dense_margin: float
    lexical_margin: float
    intercept: float

    def score(self, dense: np.ndarray, lexical: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Of candidates [P], as `features` takes them."""
        if not len(dense):
            return dense
        weights = [getattr(self, name) for name in FEATURES]
        return features(dense, lexical, first) @ weights + self.intercept

    @property
    def weight(self) -> float:
        """That of the lexical side beside the dense one, for the names of one entity."""
        dense, lexical = self.dense + self.dense_margin, self.lexical + self.lexical_margin
        return lexical / dense if dense else math.inf

    def to_json(self) -> dict[str, float]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Combiner:
        """What `to_json` gave.

        Raises:
            KeyError: it lacks a weight.
        """
        return cls(*(float(values[name]) for name in (*FEATURES, "intercept")))


Weight = float | Combiner
"""Of the lexical score beside the dense one: 0 leaves the lexical side out (its score is then 0), infinity
the dense one; or what combines them."""


def likeness(found: Sequence[Found], weight: Weight) -> list[float]:
    """The sum of both sides' scores of candidates: what NIL is judged by, whatever ranked them.

    Log odds of a combiner hold margins, which a mention without an entity may have too.
    """
    if not isinstance(weight, Combiner):
        return [one.score for one in found]
    dense, lexical = np.array([one.dense for one in found]), np.array([one.lexical for one in found])
    return fuse(dense, lexical, weight.weight).tolist()


def fuse(dense: np.ndarray, lexical: np.ndarray, weight: float) -> np.ndarray:
    """The sum of both sides' scores."""
    return lexical if math.isinf(weight) else dense + weight * lexical
