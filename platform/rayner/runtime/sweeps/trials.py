"""What the trials of a sweep leave on disk: settings, progress, outcome.

`OUT/trials/KEY/` has `trial.json` (number and settings), a training's folder for each run, `failures.jsonl`
(a line for each attempt that failed) and, once it is over or waits at a rung, `outcome.json`. All that a
sweep needs to go on after a kill is there.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rayner.config import BaseRecipe
from rayner.errors import DivergedError, InputError
from rayner.recipes import parse_recipe, with_settings
from rayner.runtime.checkpoints import LAST
from rayner.runtime.sweeps.settings import METRICS, SECONDS, SweepSettings
from rayner.runtime.sweeps.space import key_of
from rayner.runtime.tracking import LOG

SWEEP, TRIALS = "sweep.json", "trials"
TRIAL, FAILURES, OUTCOME, RUN_RESULT = "trial.json", "failures.jsonl", "outcome.json", "result.json"

State = Literal["waiting", "running", "finished", "stopped", "failed"]
"""A trial waits that has not reported yet, and one at a rung until all others are there."""
Report = dict[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What every trial is given.

    `runs`: name of a run -> the settings that make it differ from others; `drawn`: the keys whose values Ray
    Tune draws from ranges; `fixed`: those with one value, which need not be shown.
    """

    recipe: BaseRecipe
    settings: SweepSettings
    out: Path
    cache: Path
    runs: Mapping[str, Mapping[str, Any]]
    working_folder: Path
    mlflow_parent: str | None = None
    drawn: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()

    def epochs_of(self, settings: Mapping[str, Any]) -> int:
        """The epochs of each run of the trial with these settings."""
        return int(settings.get("training.epochs", self.recipe.training.epochs))

    def folder(self, settings: Mapping[str, Any]) -> Path:
        """The folder of the trial with these settings."""
        return self.out / TRIALS / key_of(settings)

    def recipe_of(self, settings: Mapping[str, Any], changes: Mapping[str, Any]) -> BaseRecipe:
        """The recipe of a run of a trial; raises RecipeError if the settings do not go together."""
        return with_settings(self.recipe, {**settings, **changes}, "trial")


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial as its folder tells. `reports` are in order of time, `values` the metric of each run so far."""

    key: str
    number: int
    settings: Mapping[str, Any]
    state: State
    error: str | None
    failures: int
    reports: Sequence[Report]
    values: Sequence[float]

    @property
    def last(self) -> Report:
        """The latest report; empty where there is none."""
        return self.reports[-1] if self.reports else {}

    @property
    def spread(self) -> float | None:
        """The standard deviation over runs; None for fewer than two."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


def plan_of(out: Path) -> Plan:
    """The plan of the sweep in a folder, as far as reading its trials needs it."""
    nature = json.loads((out / SWEEP).read_text(encoding="utf-8"))
    recipe = parse_recipe(nature["recipe"], str(out / SWEEP))
    settings = SweepSettings.model_validate(nature["settings"])
    runs = {name: {} for name, _, _ in run_names(recipe, settings)}
    return Plan(recipe, settings, out, out / ".examples", runs, Path.cwd())


def run_names(recipe: BaseRecipe, settings: SweepSettings) -> list[tuple[str, int, int]]:
    """The name, fold and seed of each run of a trial, in order."""
    seeds = range(recipe.seed, recipe.seed + settings.seeds)
    if not settings.folds:
        return [(f"seed{seed}", 0, seed) for seed in seeds]
    return [(f"fold{fold}-seed{seed}", fold, seed) for fold in range(settings.folds) for seed in seeds]


def read_trials(plan: Plan) -> list[Trial]:
    """All trials that were begun, by number."""
    folders = [path.parent for path in (plan.out / TRIALS).glob(f"*/{TRIAL}")]
    return sorted((read_trial(plan, folder) for folder in folders), key=lambda trial: trial.number)


def read_trial(plan: Plan, folder: Path) -> Trial:
    """The trial in a folder."""
    known = json.loads((folder / TRIAL).read_text(encoding="utf-8"))
    outcome = read_outcome(folder)
    reports, values = read_progress(plan, folder, known["settings"])
    state = outcome["state"] if outcome else ("running" if reports else "waiting")
    return Trial(
        key=folder.name,
        number=known["number"],
        settings=known["settings"],
        state=state,
        error=(outcome or {}).get("error"),
        failures=len(read_lines(folder / FAILURES)),
        reports=reports,
        values=values,
    )


def read_progress(plan: Plan, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Report], list[float]]:
    """A report for each evaluation and each end of a run, and the first objective's value of each run.

    A report has every objective, as the mean over the runs so far, each with its best checkpoint so far; and
    `epochs`, `steps` and `seconds`, as the sum.
    """
    epochs = plan.epochs_of(settings)
    objectives = [objective.metric for objective in plan.settings.objectives]
    main = METRICS[str(getattr(plan.recipe, "task", ""))][0]
    reports: list[Report] = []
    ended: list[Mapping[str, Any]] = []
    steps = seconds = 0.0
    for number, name in enumerate(plan.runs):
        best: Mapping[str, Any] | None = None
        here = {"step": 0.0, "seconds": 0.0}
        for row in read_lines(folder / name / LOG):
            here = {key: float(row.get(key, here[key])) for key in here}
            if "metrics" not in row:
                continue
            if best is None or row["metrics"][main] > best[main]:
                best = row["metrics"]
            totals = (number * epochs + row["epoch"], steps + here["step"], seconds + here["seconds"])
            reports.append(_report(objectives, [*ended, best or {}], *totals))
        result = _read(folder / name / RUN_RESULT)
        if result is None or best is None:
            if best is not None:
                ended.append(best)
            break
        ended.append(best)
        steps, seconds = steps + result["steps"], seconds + result["seconds"]
        reports.append(_report(objectives, ended, (number + 1) * epochs, steps, seconds))
    return reports, [_number(metrics, objectives[0]) for metrics in ended]


def is_finished(plan: Plan, folder: Path) -> bool:
    """Whether every run of the trial is done."""
    return all((folder / name / RUN_RESULT).exists() for name in plan.runs)


def read_outcome(folder: Path) -> dict[str, Any] | None:
    """`state` and `error` of a trial that is over or waits at a rung; None for any other."""
    return _read(folder / OUTCOME)


def write_outcome(folder: Path, state: State, error: str | None = None) -> None:
    """Note that a trial is over, or waits at a rung."""
    write_json(folder / OUTCOME, {"state": state, "error": error})


def remove_last(plan: Plan, folder: Path) -> None:
    """Remove what a trial would go on from, once it is over: three times as much as the model."""
    for run in plan.runs:
        shutil.rmtree(folder / run / LAST, ignore_errors=True)


def note_failure(folder: Path, error: Exception, lasting: bool = False) -> None:
    """Add an attempt that failed.

    Args:
        lasting: the settings themselves are wrong, so that nothing can be mended.
    """
    ours = isinstance(error, InputError)
    diverged = isinstance(error, DivergedError)
    row = {
        "error": str(error) if ours else f"{type(error).__name__}: {error}",
        "diverged": diverged,
        "mendable": ours and not diverged and not lasting,
    }
    with (folder / FAILURES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def begin_mended(plan: Plan) -> None:
    """Let trials begin again that failed by what a user can mend between two launches, as a full disk."""
    for trial in read_trials(plan):
        folder = plan.out / TRIALS / trial.key
        failures = failures_of(folder)
        if trial.state == "failed" and failures and failures[-1].get("mendable"):
            (folder / OUTCOME).unlink()


def failures_of(folder: Path) -> list[dict[str, Any]]:
    """The attempts that failed, in order."""
    return read_lines(folder / FAILURES)


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")
    partial.replace(path)


def _report(
    objectives: Sequence[str], runs: Sequence[Mapping[str, Any]], epochs: float, steps: float, seconds: float
) -> Report:
    means = {name: float(np.mean([_number(m, name) for m in runs])) for name in objectives if name != SECONDS}
    return {**means, "epochs": epochs, "steps": steps, SECONDS: round(seconds, 2)}


def _number(metrics: Mapping[str, Any], name: str) -> float:
    value = metrics.get(name)
    return math.nan if value is None else float(value)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of JSON, none where there is none; one that a kill cut short is left out."""
    rows = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    return rows
