"""What the trials of a sweep leave on disk: settings, progress, outcome.

`OUT/trials/NAME/` has `trial.json` (number and settings), a training's folder for each run, `failures.jsonl`
(a line for each attempt that failed) and, once it is over or paused at a rung, `outcome.json`. All that a
sweep needs to be resumed after a kill is there.

Of a sweep at a URI the driver alone has this folder, and puts it in place with its own. A trial puts what its
runs write in place itself, at `URI/trials/NAME`; of that only their progress comes into the driver's folder.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rayner.errors import InputError, RecipeError
from rayner.files.run_checkpoints import LOG, RECIPE
from rayner.files.whole import write_json
from rayner.runtime.sweeps.plan import TRIALS, Plan, later_seed
from rayner.runtime.sweeps.sweep_settings import SECONDS
from rayner.tasks.base import Metric
from rayner.tasks.registry import train_task

TRIAL, FAILURES, OUTCOME, RUN_RESULT = "trial.json", "failures.jsonl", "outcome.json", "result.json"

SEED_AFTER_DIVERGING = 1000
"""Added to the seed of a run that starts over because its loss was not finite."""

State = Literal["pending", "running", "paused", "finished", "stopped", "failed"]
"""A pending trial has not reported yet; a paused one waits at a rung for all others."""
Report = dict[str, float]


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial as its folder describes it.

    `name` is that of its folder, `reports` are in order of time, `values` the first objective of each run so
    far. `lost`: its last attempt failed because a process, a node or the storage did.
    """

    name: str
    number: int
    settings: Mapping[str, Any]
    state: State
    error: str | None
    failures: int
    reports: Sequence[Report]
    values: Sequence[float]
    lost: bool = False

    @property
    def key(self) -> str:
        """The end of its name, which no other trial has."""
        return self.name.rpartition("-")[2]

    @property
    def last(self) -> Report:
        """The latest report; empty where there is none."""
        return self.reports[-1] if self.reports else {}

    @property
    def spread(self) -> float | None:
        """The standard deviation over runs; None for fewer than two."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


def read_trials(plan: Plan) -> list[Trial]:
    """All trials that were begun, by number."""
    folders = [path.parent for path in (plan.out / TRIALS).glob(f"*/{TRIAL}")]
    return sorted((read_trial(plan, folder) for folder in folders), key=lambda trial: trial.number)


def read_trial(plan: Plan, folder: Path) -> Trial:
    """The trial in a folder."""
    known = json.loads((folder / TRIAL).read_text(encoding="utf-8"))
    outcome, failures = read_outcome(folder), failures_of(folder)
    reports, values = read_progress(plan, folder, known["settings"])
    state = outcome["state"] if outcome else ("running" if reports else "pending")
    return Trial(
        name=folder.name,
        number=known["number"],
        settings=known["settings"],
        state=state,
        error=(outcome or {}).get("error"),
        failures=len(failures),
        reports=reports,
        values=values,
        lost=bool(failures) and failures[-1]["infrastructure"],
    )


def rank_of(trial: Trial, plan: Plan) -> tuple[bool, *tuple[float, ...]]:
    """Sorts finished trials with a score from the best to the worst by the first objective, of equal ones by
    the next, and others after them. An objective that is not known comes last."""
    values = [(o, trial.last.get(o.metric, math.nan)) for o in plan.settings.objectives]
    ranks = [math.inf if math.isnan(value) else -value if o.mode == "max" else value for o, value in values]
    return trial.state != "finished" or math.isnan(values[0][1]), *ranks


def _chooses_best(plan: Plan, settings: Mapping[str, Any]) -> Metric:
    """The metric that chooses a trial's best checkpoints, which its settings may change."""
    try:
        return train_task(plan.recipe_of(settings, {})).metric
    except RecipeError:
        # Settings that do not go together: such a trial has trained nothing.
        return train_task(plan.recipe).metric


def read_progress(plan: Plan, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Report], list[float]]:
    """A report for each evaluation and each end of a run, and the first objective's value of each run.

    A report has every objective, as the mean over the runs so far, each with its best checkpoint so far; and
    `epochs`, `steps` and `seconds`, as the sum. Those of an attempt whose loss was not finite are none.
    """
    epochs = plan.epochs_of(settings)
    objectives = [objective.metric for objective in plan.settings.objectives]
    diverged = diverged_of(folder)
    main = _chooses_best(plan, settings)
    reports: list[Report] = []
    ended: list[Mapping[str, Any]] = []
    steps = seconds = 0.0
    for number, (name, changes) in enumerate(plan.runs.items()):
        best: Mapping[str, Any] | None = None
        here = {"step": 0.0, "seconds": 0.0}
        result = read_object(folder / name / RUN_RESULT)
        if result is None and diverged and is_of_another(folder / name, attempt_seed(changes, diverged)):
            break
        for row in read_lines(folder / name / LOG):
            here = {key: float(row.get(key, here[key])) for key in here}
            if "metrics" not in row:
                continue
            value, so_far = row["metrics"].get(main.name), (best or {}).get(main.name)
            if value is None or main.is_better(value, so_far):
                best = row["metrics"]
            totals = (number * epochs + row["epoch"], steps + here["step"], seconds + here["seconds"])
            reports.append(_report(objectives, [*ended, best or {}], *totals))
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
    """`state` and `error` of a trial that is over or paused; None for any other."""
    return read_object(folder / OUTCOME)


def write_outcome(folder: Path, state: State, error: str | None = None) -> None:
    """Record that a trial is over, or paused at a rung."""
    write_json(folder / OUTCOME, {"state": state, "error": error})


def record_failure(folder: Path, error: str, diverged: bool = False, infrastructure: bool = False) -> None:
    """Add an attempt that failed.

    Args:
        diverged: the loss was not finite.
        infrastructure: a process, a node or the storage failed, and not the training.
    """
    row = {"error": error, "diverged": diverged, "infrastructure": infrastructure}
    with (folder / FAILURES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def restart_failed(plan: Plan, resume_errored: bool = False) -> int:
    """Let trials that failed run again; they continue from their checkpoints.

    Args:
        resume_errored: all of them, not only those whose process, node or storage failed.

    Returns:
        How many stay failed.
    """
    failed = [trial for trial in read_trials(plan) if trial.state == "failed"]
    again = [trial for trial in failed if resume_errored or trial.lost]
    for trial in again:
        (plan.out / TRIALS / trial.name / OUTCOME).unlink()
    return len(failed) - len(again)


def failures_of(folder: Path) -> list[dict[str, Any]]:
    """The attempts that failed, in order."""
    return read_lines(folder / FAILURES)


def diverged_of(folder: Path) -> int:
    """How many attempts ended because their loss was not finite."""
    return sum(failure["diverged"] for failure in failures_of(folder))


def attempt_seed(changes: Mapping[str, Any], diverged: int) -> int:
    """The seed of a run with these settings, which differs after each loss that was not finite."""
    return later_seed(changes["seed"], SEED_AFTER_DIVERGING * diverged)


def is_of_another(run: Path, seed: int) -> bool:
    """Whether there is a run with another seed in a folder, as of an attempt whose loss was not finite."""
    recipe = run / RECIPE
    # Contexts have a seed of their own, in an indented line.
    return recipe.exists() and f"seed: {seed}" not in recipe.read_text(encoding="utf-8").splitlines()


def _report(
    objectives: Sequence[str], runs: Sequence[Mapping[str, Any]], epochs: float, steps: float, seconds: float
) -> Report:
    means = {name: float(np.mean([_number(m, name) for m in runs])) for name in objectives if name != SECONDS}
    return {**means, "epochs": epochs, "steps": steps, SECONDS: round(seconds, 2)}


def _number(metrics: Mapping[str, Any], name: str) -> float:
    value = metrics.get(name)
    return math.nan if value is None else float(value)


def read_object(path: Path) -> dict[str, Any] | None:
    """What is in a file of JSON, None where there is none.

    Raises:
        InputError: it is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        hint = "remove it, and give the command of the sweep again"
        raise InputError(str(path), "is cut short or damaged", hint) from None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of JSON, none where there is none; one that a kill cut short is left out."""
    rows = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    return rows
