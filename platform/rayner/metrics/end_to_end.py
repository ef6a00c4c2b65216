"""Scores of a whole pipeline: spans, types and entities together, and what each part of it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rayner.data.schema import Document
from rayner.metrics.counts import SpanCounts
from rayner.metrics.intervals import bootstrap_counts
from rayner.metrics.outcomes import OF_MENTIONS, OUTCOMES, Outcome
from rayner.metrics.resampling import CONFIDENCE
from rayner.metrics.spans import precision_recall_f1
from rayner.metrics.typed_mentions import typed_items

LEVELS = ("span", "span_type", "fine_types", "fine_types_of_gold", "entity", "known_entity")
GIVEN = ("gold_mentions", "predicted_mentions")
SHARES = ("entity", "known", "candidates", "nil")
BOUNDS = ("as_is", "choice", "entities", "mentions")
_CHOICE = ("right", "ranking", "refused", "nil_linked")
_IDS = 5

Rows = Sequence[Sequence[Outcome]]
Scores = Mapping[str, Any]


class FineTypes(NamedTuple):
    """The same documents three times: gold, answered, and answered where the gold mentions were given."""

    gold: Sequence[Document]
    predicted: Sequence[Document]
    on_gold: Sequence[Document]


def score_end_to_end(
    rows: Rows,
    on_gold: Rows = (),
    fine_types: FineTypes | None = None,
    *,
    intervals: bool = True,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Score a pipeline from the outcomes of its documents.

    NIL is right where a gold mention has no entity. A mention whose entity the knowledge base lacks counts as
    not right; `known_entity` leaves these mentions out, with the predictions of their span and type.

    Args:
        rows: of what the whole pipeline answered, from `outcomes`.
        on_gold: of what its later stages answered where the gold mentions were given; the same documents.
        fine_types: of a pipeline with a stage of types.
        intervals: whether to draw documents again; all scores share the same draws.

    Returns:
        `levels`: `span`, `span_type`, `fine_types` (pairs of a span and a fine type), `fine_types_of_gold`
        (the same where the gold mentions were given), `entity` (span, type and entity), `known_entity` ->
        `precision, recall, f1, support, predicted`.
        `outcomes`: the gold mentions of each of `OUTCOMES`; `shares`: the same as fractions; `per_type`: type
        -> outcome -> gold mentions; `spurious`: predictions that are paired with no gold mention, `mentions`
        of which `linked` were given an entity.
        `unknown`: `mentions` whose entity the knowledge base lacks, found or not, and some of their `ids`.
        `accuracy`: of `gold_mentions`, which were given, and of `predicted_mentions`, those that were found
        with the right span and type, each of types that are linked -> `entity`, the share with the right
        answer; `known`, of those with a known entity; `candidates`, of these the share that has it among the
        candidates; `nil`, of those without an entity; `mentions`, how many there are. None where it is about
        nothing.
        `bounds`: F1 of `entity` `as_is`, and if one part were perfect and the others as they are: `choice`
        takes the right one of the candidates, or NIL; `entities` gives each mention found its entity;
        `mentions` finds the gold mentions, on which the later stages answered what they did.
        `intervals`: of `levels`, `shares`, `accuracy` and `bounds`: [low, high], or None. In a resample that
        has nothing of what it is about, a score is 0.

        The levels of entities, `bounds` and `accuracy` are there where the outcomes are of entities too.
    """
    table = _Table(len(rows))
    linked = any(one.truth is not None for of_document in rows for one in of_document)
    for number, of_document in enumerate(rows):
        _add_levels(table, number, of_document, linked)
        if linked:
            _add_shares(table, number, "predicted_mentions", [one for one in of_document if one.found])
    for number, of_document in enumerate(on_gold if linked else ()):
        _add_shares(table, number, "gold_mentions", of_document)
        table.add(number, "bounds.mentions", _right(of_document), len(of_document), len(of_document))
    if fine_types is not None:
        _add_fine_types(table, fine_types)
    totals = table.totals()
    bounds: dict[str, Any] = {}
    if intervals:
        found = table.intervals(resamples=resamples, seed=seed)
        bounds["intervals"] = _arranged(found, totals)
        bounds["intervals"] |= {"confidence": CONFIDENCE, "resamples": resamples}
    scores = _arranged(totals, totals)
    for given, of_given in scores["accuracy"].items():
        of_given["mentions"] = totals[f"accuracy.{given}.entity"]["support"]
    gold = [one for of_document in rows for one in of_document if one.gold is not None]
    return {
        "levels": scores["levels"],
        "outcomes": _counts(gold, linked),
        "shares": scores["shares"],
        "per_type": {
            name: _counts([one for one in gold if one.position[2] == name], linked)
            for name in sorted({one.position[2] for one in gold})
        },
        "spurious": _spurious(one for of_document in rows for one in of_document if one.gold is None),
        "unknown": _unknown(gold),
        "accuracy": scores["accuracy"],
        "bounds": scores["bounds"],
        **bounds,
    }


class _Table:
    """Counts of right, predicted and gold mentions, by document and name."""

    def __init__(self, documents: int) -> None:
        self.documents = documents
        self._cells: dict[str, list[tuple[int, int, int, int]]] = {}

    def add(self, document: int, name: str, right: int, predicted: int, gold: int) -> None:
        """Once for each document and name."""
        self._cells.setdefault(name, []).append((document, right, predicted, gold))

    def totals(self) -> dict[str, dict[str, Any]]:
        """Name -> precision, recall, f1, support, predicted; ratios without a denominator are 0."""
        found: dict[str, dict[str, Any]] = {}
        for name, cells in self._cells.items():
            _, right, predicted, gold = np.array(cells).sum(0)
            scores = precision_recall_f1(right, right, predicted, gold)
            found[name] = dict(zip(("precision", "recall", "f1"), map(float, scores), strict=True))
            found[name] |= {"support": int(gold), "predicted": int(predicted)}
        return found

    def intervals(self, **how: Any) -> dict[str, Scores]:
        """Name -> the intervals of precision, recall and f1, over documents."""
        names = tuple(self._cells)
        rows = [(*cell, column) for column, name in enumerate(names) for cell in self._cells[name]]
        document, right, predicted, gold, column = np.array(rows, np.int64).reshape(-1, 5).T
        matches = {"exact": right}
        counts = SpanCounts(names, self.documents, document, column, predicted, gold, matches, matches, 0)
        return bootstrap_counts(counts, **how)["per_type"]


def _add_levels(table: _Table, number: int, rows: Sequence[Outcome], linked: bool) -> None:
    gold = [one for one in rows if one.gold is not None]
    predicted = [one for one in rows if one.predicted is not None]
    found, right = sum(one.found for one in rows), _right(rows)
    spans = {one.gold[:2] for one in gold if one.gold}
    answered = {one.predicted[:2] for one in predicted if one.predicted}
    table.add(number, "levels.span", len(spans & answered), len(answered), len(spans))
    table.add(number, "levels.span_type", found, len(predicted), len(gold))
    outcomes = Counter(one.outcome for one in gold)
    for name in OUTCOMES:
        table.add(number, f"shares.{name}", outcomes[name], len(predicted), len(gold))
    if not linked:
        return
    lacking = [one for one in gold if _lacks(one)]
    told = sum(one.found for one in lacking)
    chosen = sum(outcomes[name] for name in _CHOICE)
    table.add(number, "levels.entity", right, len(predicted), len(gold))
    kept = len(predicted) - told, len(gold) - len(lacking)
    table.add(number, "levels.known_entity", right - _right(lacking), *kept)
    for name, count in (("as_is", right), ("choice", chosen), ("entities", found)):
        table.add(number, f"bounds.{name}", count, len(predicted), len(gold))


def _add_shares(table: _Table, number: int, given: str, rows: Iterable[Outcome]) -> None:
    asked = [one for one in rows if one.truth is not None and one.truth.linked]
    known = [one for one in asked if one.truth and one.truth.known]
    nil = [one for one in asked if one.truth and not one.truth.ids]
    counts = {
        "entity": (_right(asked), asked),
        "known": (_right(known), known),
        "candidates": (sum(one.rank is not None for one in known), known),
        "nil": (_right(nil), nil),
    }
    for name, (right, of) in counts.items():
        table.add(number, f"accuracy.{given}.{name}", right, len(of), len(of))


def _add_fine_types(table: _Table, given: FineTypes) -> None:
    for name, answered in (("fine_types", given.predicted), ("fine_types_of_gold", given.on_gold)):
        for number, (document, answer) in enumerate(zip(given.gold, answered, strict=True)):
            pairs = [(set(a), set(b)) for a, b in zip(*typed_items([document], [answer]), strict=True)]
            right, predicted = sum(len(a & b) for a, b in pairs), sum(len(b) for _, b in pairs)
            table.add(number, f"levels.{name}", right, predicted, sum(len(a) for a, _ in pairs))


def _arranged(of: Mapping[str, Scores], totals: Mapping[str, Scores]) -> dict[str, Any]:
    """Scores, or their intervals, as `score_end_to_end` returns them."""

    def every(group: str, names: Sequence[str], metric: str) -> dict[str, Any]:
        known = {name: f"{group}.{name}" for name in names if f"{group}.{name}" in totals}
        return {n: of[key][metric] if totals[key]["support"] else None for n, key in known.items()}

    shares = {given: every(f"accuracy.{given}", SHARES, "recall") for given in GIVEN}
    return {
        "levels": {name: dict(of[key]) for name in LEVELS if (key := f"levels.{name}") in totals},
        "shares": every("shares", OUTCOMES, "recall"),
        "accuracy": {given: of_given for given, of_given in shares.items() if of_given},
        "bounds": every("bounds", BOUNDS, "f1"),
    }


def _counts(gold: Sequence[Outcome], linked: bool) -> dict[str, int]:
    counts = Counter(one.outcome for one in gold)
    return {name: counts[name] for name in (OUTCOMES if linked else ("right", *OF_MENTIONS))}


def _spurious(rows: Iterable[Outcome]) -> dict[str, int]:
    answers = [one.answer for one in rows]
    return {"mentions": len(answers), "linked": sum(answer is not None for answer in answers)}


def _unknown(gold: Iterable[Outcome]) -> dict[str, Any]:
    ids = [id_ for one in gold if one.truth and _lacks(one) for id_ in sorted(one.truth.ids)]
    count = sum(_lacks(one) for one in gold)
    return {"mentions": count, "ids": list(dict.fromkeys(ids))[:_IDS]}


def _right(rows: Iterable[Outcome]) -> int:
    return sum(one.outcome == "right" for one in rows)


def _lacks(one: Outcome) -> bool:
    """Whether the knowledge base lacks the entity."""
    truth = one.truth
    return truth is not None and truth.linked and bool(truth.ids) and not truth.known
