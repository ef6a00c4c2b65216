"""What moving a type's threshold does to its scores, and where it is best (papers/000, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rayner.metrics.spans import precision_recall_f1

HALF_WAY = 30
"""A type of so many mentions moves its threshold half of the way to where it is best."""


@dataclass(frozen=True, slots=True)
class CandidateSpans:
    """The candidate spans of one type.

    `margins` [n]: the score above the threshold (or the score, for a threshold of 0); a span is predicted if
    its margin exceeds the shift of the threshold. `gold` [n], boolean. `support`: the gold mentions of the
    type, those that are no candidate included; None means those that are.

    The candidates count as they stand: that one prediction may rule out another is not modelled.
    """

    margins: np.ndarray
    gold: np.ndarray
    support: int | None = None

    @property
    def positives(self) -> int:
        """The gold mentions that recall is measured against."""
        return int(self.gold.sum()) if self.support is None else self.support


def threshold_curve(candidates: Mapping[str, CandidateSpans], shifts: np.ndarray) -> dict[str, np.ndarray]:
    """Micro scores of all types when every threshold moves by each of `shifts`.

    Returns:
        `shift, precision, recall, f1`: float arrays as long as `shifts`; 0 / 0 is 0.
    """
    counts = [_counts_above(one, shifts) for one in candidates.values()]
    correct = np.sum([c for c, _ in counts], axis=0) if counts else np.zeros(len(shifts))
    predicted = np.sum([p for _, p in counts], axis=0) if counts else np.zeros(len(shifts))
    gold = np.full(len(shifts), sum(one.positives for one in candidates.values()))
    scores = precision_recall_f1(correct, correct, predicted, gold)
    return {"shift": shifts, **dict(zip(("precision", "recall", "f1"), scores, strict=True))}


def best_shift(candidates: CandidateSpans) -> dict[str, float]:
    """The shift of one type's threshold with the highest F1, and its scores.

    Every cut between two different margins is tried, in the middle. Among equals the shift nearest to 0
    wins, so that a threshold without evidence against it stays where it is.

    Returns:
        `shift, precision, recall, f1`.
    """
    distinct = np.unique(candidates.margins.astype(np.float64))
    shifts = np.zeros(1)
    if len(distinct):
        gaps = np.diff(distinct)
        lowest = distinct[0] - (gaps.mean() / 2 if len(gaps) else 0.5)
        shifts = np.concatenate([shifts, [lowest], distinct[:-1] + gaps / 2])
    shifts = shifts[np.argsort(np.abs(shifts), kind="stable")]
    curve = threshold_curve({"": candidates}, shifts)
    best = int(np.argmax(np.round(curve["f1"], 12)))
    return {name: float(values[best]) for name, values in curve.items()}


def best_shifts(candidates: Mapping[str, CandidateSpans]) -> dict[str, dict[str, float]]:
    """`best_shift` of each type: the best for each type's own F1, and so for macro, not for micro F1."""
    return {name: best_shift(one) for name, one in candidates.items()}


def cautious_shifts(candidates: Mapping[str, CandidateSpans], least: float) -> dict[str, float]:
    """Shifts for documents other than these: of `best_shift` the less, the fewer mentions a type has.

    One that rests on n mentions is multiplied by n / (n + `HALF_WAY`). Types without a mention, and without
    a candidate, stay where they are and are left out.

    Args:
        least: below it no candidate is known, so no shift goes there.
    """
    found = {}
    for name, one in candidates.items():
        if one.positives and len(one.margins):
            shift = max(best_shift(one)["shift"], least) * one.positives / (one.positives + HALF_WAY)
            found[name] = round(shift, 6)
    return {name: shift for name, shift in found.items() if shift}


def candidates_from_columns(
    types: Any, margins: Any, gold: Any, support: Mapping[str, int] | None = None
) -> dict[str, CandidateSpans]:
    """Candidates by type from three columns of equal length, one row a span.

    Args:
        types: str [n]. margins: float [n]. gold: bool [n].
        support: type -> gold mentions; types that have no candidate are included.
    """
    types, margins, gold = np.asarray(types), np.asarray(margins, np.float64), np.asarray(gold, bool)
    support = support or {}
    order = np.argsort(types, kind="stable")
    names, starts = np.unique(types[order], return_index=True)
    parts = np.split(order, starts[1:]) if len(names) else []
    rows = dict(zip(names.tolist(), parts, strict=True))
    nothing = np.zeros(0, np.int64)
    return {
        name: CandidateSpans(margins[row], gold[row], support.get(name))
        for name, row in ((name, rows.get(name, nothing)) for name in sorted(rows.keys() | support.keys()))
    }


def _counts_above(candidates: CandidateSpans, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right predictions and all predictions at each shift."""
    margins = np.sort(candidates.margins)
    right = np.sort(candidates.margins[candidates.gold])
    return (
        len(right) - np.searchsorted(right, shifts, side="right"),
        len(margins) - np.searchsorted(margins, shifts, side="right"),
    )
