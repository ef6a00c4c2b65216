"""The parts of a report about a whole pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rayner.metrics.error_kinds import spread
from rayner.metrics.outcome_names import BOUND_NAMES, GIVEN_NAMES, LEVEL_NAMES, OUTCOME_NAMES
from rayner.metrics.outcomes import OF_ENTITIES
from rayner.runtime.reports import figures_end_to_end
from rayner.runtime.reports.confidence_parts import OUTCOME_COLUMNS
from rayner.runtime.reports.page import MOST_TYPES
from rayner.runtime.reports.run_files import Absent, metrics_file, read_documents, read_metrics, read_table

Part = dict[str, Any]

_EXAMPLES = 8


def whole(run: Path) -> Part:
    """Scores of span, type and entity together, where gold mentions end, and what each part costs."""
    metrics = read_metrics(run).get("end_to_end")
    if not isinstance(metrics, Mapping) or "levels" not in metrics:
        raise Absent(f"{metrics_file(run)} holds no scores of a pipeline")
    intervals = metrics.get("intervals") or {}
    per_type = sorted(metrics["per_type"].items(), key=lambda item: -sum(item[1].values()))
    drawn = per_type[:MOST_TYPES]
    bounds = metrics["bounds"]
    of_bounds = intervals.get("bounds") or {}
    return {
        "svg": figures_end_to_end.outcome_bars([("all", metrics["outcomes"]), *drawn]),
        "drawn": len(drawn),
        "types": len(per_type),
        "levels": [
            {"name": LEVEL_NAMES[name], "interval": _of(intervals, "levels", name).get("f1"), **scores}
            for name, scores in metrics["levels"].items()
            if name != "known_entity" or metrics["unknown"]["mentions"]
        ],
        "outcomes": [
            {
                "name": OUTCOME_NAMES[name],
                "count": count,
                "share": metrics["shares"].get(name),
                "interval": (intervals.get("shares") or {}).get(name),
            }
            for name, count in metrics["outcomes"].items()
            if count
        ],
        "spurious": metrics["spurious"],
        "unknown": metrics["unknown"],
        "accuracy": [
            {"name": GIVEN_NAMES[name], "interval": _of(intervals, "accuracy", name).get("entity"), **scores}
            for name, scores in metrics["accuracy"].items()
        ],
        "bounds": figures_end_to_end.bound_bars(bounds, of_bounds) if bounds else None,
        "gains": [
            {
                "name": BOUND_NAMES[name],
                "f1": f1,
                "gain": f1 - bounds["as_is"],
                "interval": of_bounds.get(name),
            }
            for name, f1 in bounds.items()
            if f1 is not None
        ],
        "confidence": intervals.get("confidence"),
        "examples": _examples(run) if metrics["accuracy"] else [],
    }


def _examples(run: Path) -> list[Part]:
    """Mentions that were found and lost their entity, some of each outcome, over all the corpus."""
    try:
        rows = read_table(run, "outcomes.parquet", OUTCOME_COLUMNS).to_pylist()
        texts = {document.document_id: document.text for document in read_documents(run, "gold.parquet")}
    except Absent:
        return []
    groups = []
    for outcome in OF_ENTITIES:
        lost = [row for row in rows if row["outcome"] == outcome]
        if not lost:
            continue
        shown = [
            {
                "text": texts.get(row["document_id"], "")[row["gold"]["start"] : row["gold"]["end"]],
                "type": row["gold"]["type"],
                "right": _entity("|".join(row["entity_ids"]), row["entity_name"]),
                "answer": _entity(row["answer"], row["answer_name"]),
                "rank": row["rank"],
                "document_id": row["document_id"],
            }
            for row in spread(lost, _EXAMPLES)
        ]
        groups.append({"name": OUTCOME_NAMES[outcome], "count": len(lost), "rows": shown})
    return groups


def _entity(id_: str | None, name: str | None) -> str:
    return "NIL" if not id_ else f"{name} ({id_})" if name else id_


def _of(intervals: Mapping[str, Any], group: str, name: str) -> Mapping[str, Any]:
    return (intervals.get(group) or {}).get(name) or {}
