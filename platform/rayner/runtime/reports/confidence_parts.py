"""The parts of a report about scores and probabilities: how far they are what they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rayner.data.schema import Document
from rayner.errors import CorpusError
from rayner.metrics.judged_mentions import JudgedMentions, judge_mentions
from rayner.metrics.reliability import reliability, risk_coverage
from rayner.metrics.typed_mentions import judge_types
from rayner.runtime.reports import figures_confidence
from rayner.runtime.reports.figures_confidence import ENTITIES, FINE_TYPES, MENTIONS, PAIRS, Wording
from rayner.runtime.reports.page import MOST_TYPES
from rayner.runtime.reports.run_files import Absent, read_documents, read_table

Part = dict[str, Any]

OUTCOME_COLUMNS = (
    *("document_id", "outcome", "gold", "entity_ids"),
    *("answer", "rank", "entity_name", "answer_name"),
)


def of_mentions(run: Path) -> Part:
    """How far the scores of mentions are what they say, by type too, and the probabilities of entities."""
    gold, predicted = read_documents(run, "gold.parquet"), read_documents(run, "predictions.parquet")
    try:
        judged = judge_mentions(gold, predicted)
    except CorpusError as error:
        raise Absent(f"gold and predicted documents do not agree: {error}") from None
    panels = [
        panel
        for wording, (probability, right) in (
            (MENTIONS, (judged.score, judged.right)),
            (ENTITIES, _entity_probabilities(run, predicted)),
        )
        if (panel := _panel(wording, probability, right)) is not None
    ]
    if not panels:
        raise Absent("no prediction has a probability")
    return {"panels": panels, **_by_type(judged)}


def _by_type(judged: JudgedMentions) -> Part:
    """A row for each of the types with most predictions, and how many types there are."""
    names, counts = np.unique(judged.type.astype(str), return_counts=True)
    rows = []
    for place in np.argsort(-counts, kind="stable")[:MOST_TYPES]:
        own = judged.type == names[place]
        score, right = judged.score[own], judged.right[own]
        rows.append(
            {
                "type": str(names[place]),
                "mentions": int(counts[place]),
                "score": float(score.mean()),
                "right": float(right.mean()),
                "error": reliability(score, right).error,
            }
        )
    return {"rows": rows, "types": len(names)}


def _panel(wording: Wording, probability: ArrayLike, right: ArrayLike) -> Part | None:
    values, right = np.asarray(probability, float), np.asarray(right, bool)
    if not len(values) or values.min() < 0 or values.max() > 1:
        return None
    found, risk = reliability(values, right), risk_coverage(values, right)
    svg = figures_confidence.calibration_curves(found, risk, wording)
    return {"svg": svg, "name": wording.title, "error": found.error, "area": risk.area, "count": len(values)}


def _entity_probabilities(run: Path, predicted: Sequence[Document]) -> tuple[list[float], list[bool]]:
    """Of mentions that were found and linked; the first candidate is wrong where there is no right one. None
    where no gold mention has an entity: nobody knows then what is right."""
    try:
        rows = read_table(run, "outcomes.parquet", OUTCOME_COLUMNS).to_pylist()
    except Absent:
        return [], []
    if not any(row["entity_ids"] for row in rows):
        return [], []
    of = {
        (document.document_id, m.start, m.end, m.type): m.probability
        for document in predicted
        for m in document.mentions
    }
    found = [row for row in rows if row["gold"] is not None and row["gold"] == row["predicted"]]
    keys = [(row["document_id"], *row["gold"].values()) for row in found]
    known = [
        (of[key], row["rank"] == 1) for key, row in zip(keys, found, strict=True) if of.get(key) is not None
    ]
    return [float(p or 0) for p, _ in known], [right for _, right in known]


def of_types(run: Path) -> Part:
    """How far the probabilities of fine types are what they say, by type too."""
    gold, predicted = read_documents(run, "gold.parquet"), read_documents(run, "predictions.parquet")
    try:
        judged = judge_types(gold, predicted)
    except ValueError as error:
        raise Absent(f"gold and predicted documents do not agree: {error}") from None
    panel = _panel(FINE_TYPES, judged.score, judged.right)
    if panel is None:
        raise Absent("no prediction has a probability")
    return {"panels": [panel], **_by_type(judged)}


def of_pairs(run: Path) -> Part:
    """How far the scores of pairs are what they say."""
    table = read_table(run, "pairs.parquet", ("relevant", "score", "found"))
    relevant, score, found = (table[name].to_numpy() for name in ("relevant", "score", "found"))
    panel = _panel(PAIRS, np.where(found, score, 1 - score), found == relevant)
    if panel is None:
        raise Absent("scores of pairs are no probabilities")
    return {"panels": [panel], "rows": [], "types": 0}
