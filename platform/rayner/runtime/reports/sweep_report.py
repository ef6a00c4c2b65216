"""One HTML page about a sweep: what each setting does, how trials learned, quality against cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rayner.errors import InputError
from rayner.runtime.reports import figures_sweep as figures
from rayner.runtime.reports.page import render
from rayner.runtime.reports.run_files import title_of
from rayner.runtime.sweeps.plan import Plan, plan_of, read_config
from rayner.runtime.sweeps.sampling import short_names
from rayner.runtime.sweeps.sweep_settings import SECONDS
from rayner.runtime.sweeps.trials import Trial, rank_of, read_object, read_trials
from rayner.runtime.sweeps.winner import BEST_RECIPE, pareto_of

FEWEST_FOR_IMPORTANCE = 8
MOST_PAIRS = 3


def sweep_report(out: Path) -> str:
    """The page about a sweep, also about one that is under way.

    Args:
        out: the folder of the sweep.

    Raises:
        InputError: no trial has a score, or a file of the sweep is damaged.
    """
    plan = plan_of(out)
    trials = read_trials(plan)
    objective = plan.settings.objectives[0]
    scored = [t for t in trials if math.isfinite(t.last.get(objective.metric, math.nan))]
    if not scored:
        raise _nothing_to_show(out, trials, objective.metric)
    # One that failed may have had a better score than others that were stopped, and is none to choose.
    scored.sort(key=lambda trial: (trial.state == "failed", rank_of(trial, plan)))
    sign = 1 if objective.mode == "max" else -1
    # A trial that was stopped early has a score, too, though not its last one.
    points = [
        figures.Point(t.number, t.settings, t.last[objective.metric], t.state == "finished") for t in scored
    ]
    keys = _varied(scored)
    shares = importances(points, keys)
    keys.sort(key=lambda key: -shares.get(key, 0))
    names = short_names(keys)
    result = read_object(out / "result.json") or {}
    space = read_config(out).get("space", {})
    best = out / BEST_RECIPE
    return render(
        "sweep.html.j2",
        name=title_of(out),
        metric=objective.metric,
        settings=plan.settings,
        task=getattr(plan.recipe, "task", ""),
        result=result,
        best=scored[0],
        effects=figures.effects(points, names, objective.metric) if keys else None,
        keys=[{"key": key, "over": space.get(key, ""), "share": shares.get(key)} for key in keys],
        pairs=_pairs(points, keys, names, sign),
        curves=figures.learning_curves(_curves(scored, objective.metric), objective.metric),
        front=_front(scored, plan),
        columns=short_names(_varied(trials) or _keys(trials)),
        objectives=[o.metric for o in plan.settings.objectives if o.metric != SECONDS],
        trials=[*scored, *(t for t in trials if t not in scored)],
        recipe=best.read_text(encoding="utf-8") if best.exists() else None,
        saved=_saved(plan, trials),
    )


def _nothing_to_show(out: Path, trials: Sequence[Trial], metric: str) -> InputError:
    if not trials or any(trial.state in ("pending", "running", "paused") for trial in trials):
        return InputError(str(out), "no trial has a score yet", "wait for the first evaluation")
    failed = next((trial for trial in trials if trial.error), None)
    if failed is None:
        return InputError(str(out), f"no trial has {metric}", "search with another --metric")
    what = f"no trial has a score; trial {failed.number} failed: {failed.error}"
    return InputError(str(out), what, "correct that, and run the sweep again with --resume-errored")


def importances(points: Sequence[figures.Point], keys: Sequence[str]) -> dict[str, float]:
    """How much of the score's variance each setting explains in a forest of trees; sums to 1.

    Empty for a few trials or equal scores, of which nothing can be said.
    """
    from sklearn.ensemble import RandomForestRegressor

    scores = np.array([point.score for point in points])
    if len(points) < FEWEST_FOR_IMPORTANCE or not keys or np.ptp(scores) == 0:
        return {}
    columns = [_column([point.settings.get(key) for point in points]) for key in keys]
    forest = RandomForestRegressor(200, min_samples_leaf=2, random_state=0, n_jobs=1)
    forest.fit(np.stack(columns, 1), scores)
    return dict(zip(keys, map(float, forest.feature_importances_), strict=True))


def _column(values: Sequence[Any]) -> np.ndarray:
    """Numbers as ranks, words by their order: trees ask for no more."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return np.array(values, float)
    words = sorted({str(value) for value in values})
    return np.array([words.index(str(value)) for value in values], float)


def _keys(trials: Sequence[Trial]) -> list[str]:
    return list(dict.fromkeys(key for trial in trials for key in trial.settings))


def _varied(trials: Sequence[Trial]) -> list[str]:
    """The keys that tell trials apart."""
    return [key for key in _keys(trials) if len({str(trial.settings.get(key)) for trial in trials}) > 1]


def _pairs(
    points: Sequence[figures.Point], keys: Sequence[str], names: Mapping[str, str], sign: int
) -> str | None:
    pairs = list(itertools.combinations(keys[:MOST_PAIRS], 2))
    if not pairs or len(points) < 4:
        return None
    return figures.interactions(
        [figures.Point(p.number, p.settings, sign * p.score, p.finished) for p in points], pairs, names
    )


def _curves(scored: Sequence[Trial], metric: str) -> list[figures.Curve]:
    return [
        figures.Curve(
            number=trial.number,
            epochs=[report["epochs"] for report in trial.reports],
            scores=[report[metric] for report in trial.reports],
            finished=trial.state == "finished",
            rank=rank,
        )
        for rank, trial in enumerate(scored)
    ]


def _front(scored: Sequence[Trial], plan: Plan) -> str | None:
    objective = plan.settings.objectives[0]
    finished = [trial for trial in scored if trial.state == "finished"]
    if len(finished) < 2 or objective.metric == SECONDS:
        return None
    signs = {objective.metric: 1 if objective.mode == "max" else -1, SECONDS: -1}
    front = {trial.name for trial in pareto_of(finished, signs)}
    rows = [(t.number, t.last[SECONDS], t.last[objective.metric], t.name in front) for t in finished]
    return figures.pareto_front(rows, objective.metric, objective.mode == "max")


def _saved(plan: Plan, trials: Sequence[Trial]) -> float | None:
    """The part of the epochs of the trials that are over, which stopping early has saved."""
    over = [trial for trial in trials if trial.state in ("stopped", "finished")]
    total = sum(plan.epochs_of(trial.settings) for trial in over) * plan.settings.runs
    stopped = any(trial.state == "stopped" for trial in over)
    return 1 - sum(t.last.get("epochs", 0) for t in over) / total if stopped and total else None
