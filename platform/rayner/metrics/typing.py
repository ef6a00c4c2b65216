"""Scores of fine types, of which an item has any number (Ling and Weld 2012, section 5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rayner.metrics.spans import precision_recall_f1

if TYPE_CHECKING:
    from scipy.sparse import csr_array

METRICS = (
    "accuracy",
    "macro_precision",
    "macro_recall",
    "macro_f1",
    "micro_precision",
    "micro_recall",
    "micro_f1",
)
FREQUENCIES = (0, 1, 10, 100, 1000)
"""Where the classes of types begin that are seen so often in training."""


@dataclass(frozen=True, slots=True)
class TypeTables:
    """The types of each item, sparse tables [items, types] of ones."""

    types: tuple[str, ...]
    gold: csr_array
    predicted: csr_array

    def of(self, chosen: np.ndarray) -> ItemCounts:
        """Counts of the chosen types only; bool [types]."""
        weights = chosen.astype(np.int64)
        both = self.gold.multiply(self.predicted)
        return ItemCounts(both @ weights, self.predicted @ weights, self.gold @ weights)


@dataclass(frozen=True, slots=True)
class ItemCounts:
    """How many types of each item are right, predicted and gold; int64 [items]."""

    right: np.ndarray
    predicted: np.ndarray
    gold: np.ndarray

    def terms(self) -> np.ndarray:
        """float64 [items, 9]: what `scores_of` takes the sums of."""
        columns = [
            (self.right == self.predicted) & (self.right == self.gold),
            np.ones(len(self.gold)),
            self.right / np.maximum(self.predicted, 1),
            self.predicted > 0,
            self.right / np.maximum(self.gold, 1),
            self.gold > 0,
            self.right,
            self.predicted,
            self.gold,
        ]
        return np.stack(columns, 1).astype(np.float64)


def score_types(
    gold: Sequence[Collection[str]],
    predicted: Sequence[Collection[str]],
    frequencies: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Score the types of items against the right ones.

    `accuracy` (strict): the part of the items whose types are exactly the right ones. `macro` (loose macro):
    precision is the mean, over items with predicted types, of the part of these that is right; recall the
    mean, over items with gold types, of the part of these that is predicted. `micro` (loose micro): the same
    of all types of all items together. A ratio without a denominator is 0.

    Args:
        gold, predicted: the types of each item; a type given twice counts once.
        frequencies: how often each type occurs in training, for `per_frequency`; 0 for those it lacks.

    Returns:
        Fractions `accuracy, macro_precision, macro_recall, macro_f1, micro_precision, micro_recall,
        micro_f1`; `support`, the number of items; `per_depth`: "1" ("/person"), "2" ("/person/artist") ... ->
        `macro_*, micro_*` of the types of that depth alone and their `support` (gold types); `per_type`: type
        -> `precision, recall, f1, support`, of types that occur; `per_frequency`: "0", "1-9", ... -> as
        `per_depth`, where `frequencies` are given.

    Raises:
        ValueError: the numbers of items differ.
    """
    tables = type_tables(gold, predicted)
    everything = tables.of(np.ones(len(tables.types), bool))
    depths = np.array([depth_of(name) for name in tables.types], np.int64)
    scores = {
        **_floats(scores_of(everything.terms().sum(0))),
        "support": len(gold),
        "per_depth": {str(d): _part(tables, depths == d) for d in np.unique(depths).tolist()},
        "per_type": _per_type(tables),
    }
    if frequencies is not None:
        seen = np.array([frequencies.get(name, 0) for name in tables.types], np.int64)
        classes = np.searchsorted(FREQUENCIES, seen, side="right") - 1
        scores["per_frequency"] = {
            _class_name(number): _part(tables, classes == number) for number in np.unique(classes).tolist()
        }
    return scores


def type_tables(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> TypeTables:
    """The items as tables over the types that occur, in alphabetical order.

    Raises:
        ValueError: the numbers of items differ.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold items and {len(predicted)} predicted ones")
    types = tuple(sorted({name for items in (gold, predicted) for labels in items for name in labels}))
    column = {name: place for place, name in enumerate(types)}
    return TypeTables(types, _table(gold, column), _table(predicted, column))


def depth_of(name: str) -> int:
    """The level of a type in its hierarchy: 1 for "/person" and "person", 2 for "/person/artist"."""
    return name.strip("/").count("/") + 1


def scores_of(sums: np.ndarray) -> dict[str, np.ndarray]:
    """The metrics from sums [..., 9] of terms over items."""
    exact, items, precisions, predicting, recalls, having, right, predicted, gold = np.moveaxis(sums, -1, 0)
    precision, recall = _ratio(precisions, predicting), _ratio(recalls, having)
    macro = (precision, recall, _ratio(2 * precision * recall, precision + recall))
    micro = precision_recall_f1(right, right, predicted, gold)
    return dict(zip(METRICS, (_ratio(exact, items), *macro, *micro), strict=True))


def _table(items: Sequence[Collection[str]], column: Mapping[str, int]) -> csr_array:
    # Here as elsewhere, a training worker starts without it: it takes a third of a second.
    from scipy.sparse import csr_array

    rows = [sorted({column[name] for name in labels}) for labels in items]
    ends = np.append(0, np.cumsum([len(row) for row in rows], dtype=np.int64))
    places = np.fromiter((place for row in rows for place in row), np.int64, int(ends[-1]))
    return csr_array((np.ones(len(places), np.int64), places, ends), shape=(len(items), len(column)))


def _part(tables: TypeTables, chosen: np.ndarray) -> dict[str, Any]:
    counts = tables.of(chosen)
    scores = _floats(scores_of(counts.terms().sum(0)))
    del scores["accuracy"]
    return {**scores, "support": int(counts.gold.sum())}


def _per_type(tables: TypeTables) -> dict[str, dict[str, Any]]:
    right = tables.gold.multiply(tables.predicted).sum(0)
    predicted, gold = tables.predicted.sum(0), tables.gold.sum(0)
    rows = zip(*(part.tolist() for part in precision_recall_f1(right, right, predicted, gold)), strict=True)
    return {
        name: {"precision": precision, "recall": recall, "f1": f1, "support": support}
        for name, (precision, recall, f1), support in zip(tables.types, rows, gold.tolist(), strict=True)
    }


def _class_name(number: int) -> str:
    begin = FREQUENCIES[number]
    if number + 1 == len(FREQUENCIES):
        return f"{begin}+"
    last = FREQUENCIES[number + 1] - 1
    return str(begin) if last == begin else f"{begin}-{last}"


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return part / np.where(whole == 0, 1.0, whole)


def _floats(scores: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: float(value) for name, value in scores.items()}
