"""The parts of a report that only a standardizer has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rayner.metrics.linking import TOP, coverage_points, judge, roc_points
from rayner.metrics.linking_errors import CATEGORIES, NIL_CATEGORIES
from rayner.metrics.nil import NIL_SHARE
from rayner.metrics.reliability import reliability, risk_coverage
from rayner.runtime.reports import figures_confidence, figures_linking
from rayner.runtime.reports.figures_confidence import FIRST
from rayner.runtime.reports.run_files import Absent, metrics_file, read_metrics, read_recipe, read_table
from rayner.tasks.kinds.mentions import ANSWER_SCHEMA, answers_from_table

Part = dict[str, Any]

ANSWERS, CALIBRATION = "answers.parquet", "calibration.parquet"
GROUPS = {"all": "all", "seen": "strings of the index", "unseen": "other strings"}
MISTAKE_NAMES = {
    "misspelling": "misspelling",
    "acronym": "acronym",
    "multi_match": "multi-match",
    "no_match": "no match",
    "judged_nil": "right, but judged NIL",
    "nil_linked": "NIL, but linked",
}
_COLUMNS = {f"top{k}": f"top {k}" for k in TOP} | {
    "mrr": "MRR",
    "nil_precision": "NIL precision",
    "nil_recall": "NIL recall",
    "nil_auc": "NIL area",
    "accuracy": "accuracy",
}


def top(run: Path) -> Part:
    """Top-k of all mentions, and of those whose string the index has or has not."""
    metrics = read_metrics(run)
    scores = {name: metrics if name == "all" else metrics.get(name) for name in GROUPS}
    known = {name: s for name, s in scores.items() if isinstance(s, Mapping) and s.get("mentions")}
    rows = [
        {
            "name": GROUPS[name],
            "scores": [s.get(column) for column in _COLUMNS],
            "mentions": s["mentions"],
            "nil": s.get("nil", 0),
        }
        for name, s in known.items()
    ]
    bars = {
        GROUPS[name]: {f"top {k}": float(s[f"top{k}"]) for k in TOP}
        for name, s in known.items()
        if s.get("top1") is not None
    }
    if not bars:
        if known:
            raise Absent("no mention has an entity, so that no candidate is right")
        raise Absent(f"{metrics_file(run)} holds no top1")
    intervals = metrics.get("intervals") or {}
    svg = figures_linking.top_bars(bars, {f"top {k}": intervals.get(f"top{k}") for k in TOP})
    return {"svg": svg, "columns": list(_COLUMNS.values()), "rows": rows}


def confidence(run: Path) -> Part:
    """Accuracy against coverage, and the ROC curve where there are NIL mentions."""
    gold, answers = answers_from_table(read_table(run, ANSWERS, ANSWER_SCHEMA.names))
    judged = judge(gold, answers)
    roc = roc_points(judged)
    area = read_metrics(run).get("nil_auc")
    answered = float(judged.linked.mean())
    marked = None if judged.linked.all() else answered
    svg = figures_linking.answer_curves(coverage_points(judged), roc, area, marked)
    calibrated = any(answer.probability is not None for answer in answers)
    return {"svg": svg, "roc": bool(roc), "answered": answered, "calibrated": calibrated}


def calibration(run: Path) -> Part:
    """How far probabilities are what they say, on mentions that they were not fitted on."""
    table = read_table(run, CALIBRATION, ("probability", "right", "weight"))
    columns = [table[name].to_numpy() for name in ("probability", "right", "weight")]
    found, risk = reliability(*columns), risk_coverage(*columns)
    svg = figures_confidence.calibration_curves(found, risk, FIRST)
    share = read_recipe(run).get("nil_share", NIL_SHARE)
    return {"svg": svg, "error": found.error, "area": risk.area, "nil_share": share, "count": len(table)}


def mistakes(run: Path) -> Part:
    """Mistakes by category, with examples."""
    errors = read_metrics(run).get("errors")
    if not isinstance(errors, Mapping) or "counts" not in errors:
        raise Absent(f"{metrics_file(run)} holds no mistakes")
    counts = {name: errors["counts"].get(name, 0) for name in (*CATEGORIES, *NIL_CATEGORIES)}
    if not any(counts.values()):
        return {"svg": None}
    named = {MISTAKE_NAMES[name]: count for name, count in counts.items()}
    groups = [
        {"title": MISTAKE_NAMES[name], "count": count, "rows": errors.get("examples", {}).get(name, [])}
        for name, count in counts.items()
        if count
    ]
    return {"svg": figures_linking.mistake_bars(named), "groups": groups}
