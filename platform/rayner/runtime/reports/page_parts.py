"""The parts of a report: each reads what it needs of a run, and says why if it cannot be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rayner.errors import CorpusError, InputError
from rayner.metrics.error_kinds import CATEGORIES, categorize, summarize_errors
from rayner.metrics.thresholds import CandidateSpans, best_shifts, candidates_from_columns, threshold_curve
from rayner.runtime.evaluation.evaluation_folder import ABOUT, PIPELINE, RECIPE
from rayner.runtime.reports import confidence_parts, end_to_end_parts, figures, linking_parts
from rayner.runtime.reports.page import MOST_TYPES
from rayner.runtime.reports.run_files import (
    Absent,
    is_evaluation,
    is_pipeline,
    metrics_file,
    read_documents,
    read_log,
    read_metrics,
    read_recipe,
    read_table,
    read_text,
)
from rayner.tasks.kinds.base import Kind

MOST_FILES = 6
MOST_DENSITIES = 9
NAMES = {
    "f1": "F1",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "conll_f1": "CoNLL F1",
    "muc_f1": "MUC F1",
    "b_cubed_f1": "B-cubed F1",
    "ceaf_e_f1": "CEAF-e F1",
    "lea_f1": "LEA F1",
    "start_f1": "start F1",
    "end_f1": "end F1",
    "loose_f1": "loose F1",
    "support": "gold mentions",
    "calibration_error": "expected calibration error",
    "ignored": "predictions of types that were not annotated",
    "top1": "top 1",
    "top3": "top 3",
    "top5": "top 5",
    "mrr": "mean reciprocal rank",
    "mrr_other_stories": "mean reciprocal rank among other stories",
    "nil_precision": "NIL precision",
    "nil_recall": "NIL recall",
    "nil_auc": "NIL area under ROC",
    "linked_precision": "precision of entities",
    "linked_recall": "recall of entities",
    "linked_f1": "F1 of entities",
    "linked_support": "gold mentions with an entity",
}
_OF_STORIES = ("mrr_other_stories", "mrr")
_FIRST = {
    "mrr_other_stories": _OF_STORIES,
    "micro_f1": ("accuracy", "macro_f1", "micro_f1"),
    "conll_f1": ("conll_f1",),
}
"""What the page begins with where a run has the metric: of chains, types, and coreference."""
CATEGORY_NAMES = {name: name.replace("_", " ") for name in CATEGORIES}

Part = dict[str, Any]


def _setup(run: Path) -> Part:
    recipe = read_recipe(run)
    corpus = recipe.get("corpus")
    rows = {"task": recipe.get("task"), "encoder": recipe.get("encoder"), "seed": recipe.get("seed")}
    if isinstance(corpus, Mapping):
        rows |= {name: _first(_many(corpus.get(name)), MOST_FILES) for name in ("train", "dev")}
        if fraction := corpus.get("dev_fraction"):
            rows["dev"] = f"{100 * fraction:g}% of the training documents"
    for name, key in (
        ("knowledge_base", "paths"),
        ("mentions", "train"),
        ("mentions", "dev"),
        ("mentions", "negatives"),
        ("pairs", "train"),
        ("pairs", "dev"),
    ):
        section = recipe.get(name)
        if isinstance(section, Mapping):
            title = "knowledge base" if key == "paths" else f"{name}, {key}"
            rows[title] = _first(_many(section.get(key)), MOST_FILES)
            if key == "dev" and (fraction := section.get("dev_fraction")):
                rows[title] = f"{100 * fraction:g}% of those of train"
    types = recipe.get("types")
    if isinstance(types, list):
        names = [t.get("name") if isinstance(t, Mapping) else t for t in types]
        rows["types"] = _first(names, MOST_TYPES)
    return {"rows": {name: str(value) for name, value in rows.items() if value not in (None, "")}}


def _scores(run: Path) -> Part:
    metrics = read_metrics(run)
    intervals = metrics.get("intervals") or {}
    others = ("precision", "recall", "f1", "top1", "top5", "nil_auc")
    first = next((names for name, names in _FIRST.items() if name in metrics), others)
    rows = [
        {
            "name": NAMES.get(name, name.replace("_", " ")),
            "value": value,
            "interval": intervals.get(name),
            "first": name in first,
        }
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if not rows:
        raise Absent(f"{metrics_file(run)} holds no number")
    return {"rows": rows, "confidence": intervals.get("confidence")}


def _curves(run: Path) -> Part:
    steps, evaluations, unread = read_log(run)
    losses = {"all": _points(steps, "loss")}
    parts = {
        name: _points([{"step": row["step"], **(row.get("parts") or {})} for row in steps], name)
        for name in dict.fromkeys(name for row in steps for name in row.get("parts") or {})
    }
    # Under the line of an only part nobody would see that of the whole.
    losses |= parts if [*parts.values()] != [*losses.values()] else {}
    flat = [{"step": row["step"], **row["metrics"]} for row in evaluations]
    curves: tuple[str, ...] = ("f1", "macro_f1", "loose_f1", "top1", "top5", "nil_auc")
    if any(_OF_STORIES[0] in row for row in flat):
        curves = _OF_STORIES
    shown = [name for name in curves if any(isinstance(row.get(name), float) for row in flat)]
    # A task that has none of these is judged by whatever it reports first.
    shown = shown or [name for row in flat[:1] for name, value in row.items() if isinstance(value, float)][:1]
    scores = {NAMES.get(name, name): _points(flat, name) for name in shown}
    if not any(points[0] for points in (*losses.values(), *scores.values())):
        raise Absent("log.jsonl holds no loss and no score")
    speed = [row["words_per_second"] for row in steps if "words_per_second" in row]
    padding = [row["padding"] for row in steps if "padding" in row]
    svg = figures.training_curves(
        {name: points for name, points in losses.items() if points[0]},
        scores,
        _points(steps, "learning_rate"),
    )
    return {
        "svg": svg,
        "steps": max(row["step"] for row in [*steps, *evaluations]),
        "epochs": max((row["epoch"] for row in [*steps, *evaluations] if "epoch" in row), default=None),
        "words_per_second": float(np.median(speed)) if speed else None,
        "padding": float(np.mean(padding)) if padding else None,
        "unread": unread,
    }


def _types(run: Path) -> Part:
    metrics = read_metrics(run)
    intervals = (metrics.get("intervals") or {}).get("per_type") or {}
    per_type = metrics.get("per_type")
    if not per_type:
        raise Absent(f"{metrics_file(run)} holds no scores by type")
    rows = [
        {"type": name, "interval": (intervals.get(name) or {}).get("f1"), **scores}
        for name, scores in sorted(per_type.items(), key=lambda item: -item[1]["support"])[:MOST_TYPES]
    ]
    bars = [(row["type"], row["f1"], row["interval"]) for row in rows]
    return {"svg": figures.type_bars(bars), "rows": rows, "types": len(per_type)}


def _added_types(run: Path) -> Part:
    found = read_metrics(run).get("flat_decoding")
    if not found:
        raise Absent(f"{metrics_file(run)} holds nothing of added types")
    rows = [{"type": name, **row} for name, row in found["per_type"].items()]
    return {"rows": [*rows, {"type": "all", **found}], "lost": found["lost"], "before": found["before"]}


def _thresholds(run: Path) -> Part:
    table = read_table(run, "candidates.parquet", ("type", "margin", "gold"))
    per_type = read_metrics(run).get("per_type") or {}
    support = {name: scores["support"] for name, scores in per_type.items()}
    types, margins, gold = (table[name].to_numpy() for name in ("type", "margin", "gold"))
    # Below the last span that is no mention nobody knows how many more there are.
    known = margins >= (-np.inf if gold.all() else margins[~gold].min())
    candidates = candidates_from_columns(types[known], margins[known], gold[known], support)
    curve = threshold_curve(candidates, _shifts(candidates))
    best = int(np.argmax(curve["f1"]))
    shown = sorted(candidates, key=lambda name: -candidates[name].positives)[:MOST_TYPES]
    shifts = best_shifts({name: candidates[name] for name in sorted(shown)})
    now = {name: threshold_curve({name: candidates[name]}, np.zeros(1))["f1"][0] for name in shifts}
    return {
        "svg": figures.threshold_shift(curve, float(curve["shift"][best])),
        "best": {name: float(values[best]) for name, values in curve.items()},
        "rows": [{"type": name, "now": now[name], **found} for name, found in shifts.items()],
        "types": len(candidates),
    }


def _shifts(candidates: Mapping[str, CandidateSpans]) -> np.ndarray:
    """A grid around 0 where the scores still change: as wide as the margins of nearly all gold mentions."""
    margins = np.concatenate([one.margins for one in candidates.values()])
    gold = np.concatenate([one.margins[one.gold] for one in candidates.values()])
    low, high = np.quantile(gold if len(gold) else margins, (0.01, 0.99))
    low, high = max(min(low, -high / 4), margins.min()), max(high, -low / 4)
    return np.unique(np.append(np.linspace(min(low, 0), max(high, 0), 241), 0))


def _similarities(run: Path) -> Part:
    table = read_table(run, "similarities.parquet", ("type", "kind", "similarity"))
    types, kinds, values = (table[name].to_numpy() for name in ("type", "kind", "similarity"))
    mentions = {**dict.fromkeys(np.unique(types), 0), **Counter(types[kinds == "mention"].tolist())}
    chosen = sorted(mentions, key=lambda name: -mentions[name])[:MOST_DENSITIES]
    samples: dict[str, dict[str, np.ndarray]] = {}
    for name in chosen:
        of_kind = {
            kind: values[(types == name) & (kinds == kind)] for kind in ("mention", "other", "threshold")
        }
        samples[name] = {kind: sample.astype(float) for kind, sample in of_kind.items() if len(sample)}
    return {
        "svg": figures.similarity_densities(samples),
        "drawn": len(chosen),
        "types": len(mentions),
        "spans": table.num_rows,
    }


def _errors(run: Path) -> Part:
    gold, predicted = read_documents(run, "gold.parquet"), read_documents(run, "predictions.parquet")
    try:
        found = categorize(gold, predicted, _scored_types(run))
    except CorpusError as error:
        raise Absent(f"gold and predicted documents do not agree: {error}") from None
    summary = summarize_errors(found, gold)
    if not found:
        return {**summary, "svg": None, "drawn": 0}
    order = sorted(summary["per_type"].items(), key=lambda item: -sum(item[1].values()))[:MOST_TYPES]
    for rows in summary["examples"].values():
        for row in rows:
            row["pieces"] = _pieces(row)
    return {**summary, "svg": figures.error_bars(dict(order), CATEGORY_NAMES), "drawn": len(order)}


def _scored_types(run: Path) -> list[str] | None:
    """The types that scores count; None for all. A corpus may have mentions of others: none was missed."""
    try:
        return list(read_metrics(run).get("per_type") or ()) or None
    except Absent:
        return None


def _pieces(example: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The example's text cut where a mention begins or ends, each piece with its CSS classes."""
    spans = {side: example[side] for side in ("gold", "predicted") if example[side] is not None}
    edges = sorted(
        {0, len(example["text"])} | {span[edge] for span in spans.values() for edge in ("start", "end")}
    )
    return [
        (
            example["text"][a:b],
            " ".join(side for side, s in spans.items() if s["start"] <= a and b <= s["end"]),
        )
        for a, b in pairwise(edges)
    ]


def _recipe(run: Path) -> Part:
    name = PIPELINE if is_pipeline(run) else RECIPE
    return {"title": name.removesuffix(".yaml").capitalize(), "text": read_text(run, name)}


def _evaluated(run: Path) -> Part:
    about = read_recipe(run, ABOUT)
    rows = {name: ", ".join(map(str, _many(about.get(name)))) for name in ("checkpoint", "corpora")}
    return {"rows": rows}


def _points(rows: list[dict[str, Any]], name: str) -> tuple[list[float], list[float]]:
    known = [row for row in rows if isinstance(row.get(name), int | float)]
    return [row["step"] for row in known], [row[name] for row in known]


def _first(names: Sequence[Any], most: int) -> str:
    more = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {more:,} more" if more > 0 else "")


def _many(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


Build = Callable[[Path], Part]
COMMON: dict[str, Build] = {"setup": _setup, "scores": _scores, "curves": _curves, "recipe": _recipe}
OF_KINDS: dict[str, Build] = {
    "types": _types,
    "added_types": _added_types,
    "thresholds": _thresholds,
    "similarities": _similarities,
    "mention_confidence": confidence_parts.of_mentions,
    "type_confidence": confidence_parts.of_types,
    "pair_confidence": confidence_parts.of_pairs,
    "errors": _errors,
    "top": linking_parts.top,
    "entity_confidence": linking_parts.confidence,
    "calibration": linking_parts.calibration,
    "mistakes": linking_parts.mistakes,
}
"""What a report shows beside, where the kind of items names it."""
_OF_TRAINING = ("curves", "thresholds", "similarities", "calibration")


def parts_of(run: Path, kind: Kind) -> dict[str, Build]:
    """The parts of the report of a run or an evaluation.

    Raises:
        InputError: a kind of another package names a part that there is not.
    """
    if unknown := [name for name in kind.report_parts if name not in OF_KINDS]:
        what = f"its report_parts name {', '.join(map(repr, unknown))}, which no report has"
        raise InputError(f"items of the kind {kind.name!r}", what, f"name some of {', '.join(OF_KINDS)}")
    parts = COMMON | {name: OF_KINDS[name] for name in kind.report_parts}
    if not is_evaluation(run):
        return parts
    whole: dict[str, Build] = {"whole": end_to_end_parts.whole} if is_pipeline(run) else {}
    left = {name: build for name, build in parts.items() if name not in _OF_TRAINING}
    return whole | left | {"setup": _evaluated}
