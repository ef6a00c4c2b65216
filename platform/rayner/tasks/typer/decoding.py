"""From scores of types to the types of a mention, with thresholds and hierarchies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from rayner.config import TypeDecoding
from rayner.data.fine_types import ancestors, gold_types
from rayner.data.schema import Mention
from rayner.metrics.thresholds import best_shifts, candidates_from_columns
from rayner.metrics.typing import scores_of, type_tables

GRID = np.arange(0.02, 0.981, 0.02)
"""The probabilities that are tried as the threshold of all types."""
FLOOR = float(GRID[0])
"""What is less probable is not looked at when thresholds are tuned."""

Scored = Mapping[str, float]
"""Types and their probabilities: all above their thresholds and the most probable one."""


def probability(logits: np.ndarray) -> np.ndarray:
    """The sigmoid, without overflow."""
    return 1 / (1 + np.exp(-np.clip(logits, -60, 60)))


def logit(value: float) -> float:
    """The inverse of `probability`."""
    return float(np.log(value) - np.log1p(-value))


def decode(
    scored: Scored, above: Collection[str], settings: TypeDecoding, known: Collection[str]
) -> tuple[tuple[str, float], ...]:
    """The types of a mention, best first, by name among equals.

    A type that a more special one adds has at least its probability, so that no special type stands before a
    general one.

    Args:
        scored: those above their thresholds, and the most probable one.
        above: those of them that are above their thresholds.
        known: all types that there are: only those are added, and only their absence drops what is below.
    """
    best = max(scored, key=lambda name: (scored[name], name), default=None)
    kept = {name: scored[name] for name in above}
    forced = best is not None and settings.always_best
    if settings.hierarchy == "drop_orphans":
        kept = {n: s for n, s in kept.items() if all(a in kept for a in ancestors(n) if a in known)}
    if forced and best is not None:
        kept[best] = scored[best]
    if settings.hierarchy != "none":
        for name, score in list(kept.items()):
            for above_it in ancestors(name):
                if above_it in known:
                    kept[above_it] = max(kept.get(above_it, 0.0), score)
    return tuple(sorted(kept.items(), key=lambda item: (-item[1], item[0])))


def tuned_threshold(
    mentions: Sequence[tuple[Scored, Mention]], settings: TypeDecoding, known: Collection[str]
):
    """The probability in `GRID` whose types have the best loose macro F1 on dev; of equals the one nearest to
    `settings.value`.

    Args:
        mentions: what is scored above `FLOOR` and the most probable type of each, with the gold mention.
    """
    gold = [gold_types(mention) for _, mention in mentions]
    found = []
    for value in GRID:
        predicted = [
            [n for n, _ in decode(scored, [k for k, s in scored.items() if s > value], settings, known)]
            for scored, _ in mentions
        ]
        tables = type_tables(gold, predicted)
        sums = tables.of(np.ones(len(tables.types), bool)).terms().sum(0)
        found.append(float(scores_of(sums)["macro_f1"]))
    order = np.lexsort((np.abs(GRID - settings.value), -np.round(found, 12)))
    return float(GRID[order[0]])


def tuned_per_type(
    mentions: Sequence[tuple[Scored, Mention]], settings: TypeDecoding, known: Sequence[str]
) -> np.ndarray:
    """[K] the logit of each type's threshold with its best F1 on dev; of types that dev lacks, `value`'s."""
    rows = [(n, logit(s), n in set(gold_types(m))) for scored, m in mentions for n, s in scored.items()]
    support: dict[str, int] = {}
    for _, mention in mentions:
        for name in gold_types(mention):
            support[name] = support.get(name, 0) + 1
    types, logits, right = zip(*rows, strict=True) if rows else ((), (), ())
    usual = logit(settings.value)
    margins = np.asarray(logits, np.float64) - usual
    shifts = best_shifts(candidates_from_columns(types, margins, right, support))
    seen = {name for name, _, is_right in rows if is_right}
    return np.array([usual + (shifts[name]["shift"] if name in seen else 0.0) for name in known])
