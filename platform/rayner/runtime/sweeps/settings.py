"""What a sweep is told: how many trials, chosen and stopped how, judged by what."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, ValidationError, model_validator

from rayner.config import BaseRecipe, Settings
from rayner.errors import InputError

Search = Literal["grid", "random", "optuna"]
Scheduler = Literal["none", "asha", "halving"]
Mode = Literal["max", "min"]

SECONDS = "seconds"
"""The training time of all runs of a trial: an objective beside the metrics of the task."""

_SPANS = ("f1", "precision", "recall", "macro_f1", "start_f1", "end_f1", "loose_f1")
_LINKING = ("top1", "top3", "top5", "mrr", "nil_precision", "nil_recall", "nil_auc")
METRICS: Mapping[str, Sequence[str]] = {
    "recognizer": _SPANS,
    "tagger": _SPANS,
    "standardizer": _LINKING,
}
"""The metrics of each task, the one that chooses its best checkpoint first."""


class Objective(Settings):
    """A metric, and whether more or less of it is better."""

    metric: str
    mode: Mode = "max"


class SweepSettings(Settings):
    """How a sweep goes.

    `trials` None is the whole grid, or 16. A trial is `folds` times `seeds` runs (`folds` 0: one split, the
    recipe's own), one after the other, and its score the mean over them. `held_out` is the part of the
    training items that no trial sees. ASHA stops a trial that, after `grace` epochs, `grace * reduction` and
    so on, is not among the best one of `reduction` of those before it; halving waits there for all trials. A
    trial that fails is begun again `retries` times. `workers` are Ray Train workers of each trial; 0 trains
    within the trial's own process. `at_once` None is as many trials as the cluster has room for now.
    """

    trials: PositiveInt | None = None
    search: Search = "random"
    scheduler: Scheduler = "none"
    objectives: Annotated[tuple[Objective, ...], Field(min_length=1)]
    folds: Annotated[int, Field(ge=0)] = 0
    seeds: PositiveInt = 1
    held_out: Annotated[float, Field(ge=0, le=0.5)] = 0
    workers: Annotated[int, Field(ge=0)] = 0
    at_once: PositiveInt | None = None
    grace: PositiveInt = 2
    reduction: Annotated[int, Field(ge=2)] = 3
    retries: Annotated[int, Field(ge=0)] = 2
    seed: int = 1

    @model_validator(mode="after")
    def _fits_together(self) -> SweepSettings:
        if self.folds == 1:
            raise ValueError("folds is 1: a cross-validation has at least 2, 0 is for none")
        if len(self.objectives) > 1 and self.scheduler != "none":
            raise ValueError(
                f"the scheduler {self.scheduler} judges by one metric, and there are {len(self.objectives)}: "
                "take the scheduler none or one metric"
            )
        if self.scheduler == "halving" and self.search == "optuna":
            raise ValueError(
                "halving compares all trials with each other, and Optuna proposes them one by one: take the "
                "search random or grid, or the scheduler asha"
            )
        return self

    @property
    def runs(self) -> int:
        """Trainings of a trial."""
        return max(self.folds, 1) * self.seeds


def sweep_settings(**values: object) -> SweepSettings:
    """The settings from values as a user gives them.

    Raises:
        InputError: the value that is wrong.
    """
    try:
        return SweepSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = "--" + "-".join(str(part) for part in first["loc"][:1]).replace("_", "-")
        raise InputError(
            "rayner tune" + (f" {place}" if first["loc"] else ""),
            first["msg"].removeprefix("Value error, "),
        ) from None


def objectives(texts: Sequence[str], recipe: BaseRecipe) -> tuple[Objective, ...]:
    """Objectives from `f1` or `seconds:min`; less is better of seconds, more of anything else.

    Seconds come last: the winner is chosen by the first.

    Raises:
        InputError: a metric that the recipe's task does not report, with the nearest that it does, or
            seconds alone.
    """
    task = getattr(recipe, "task", "")
    known = [*METRICS.get(task, ()), SECONDS]
    found = []
    for text in texts:
        metric, _, mode = text.partition(":")
        if metric not in known:
            near = difflib.get_close_matches(metric, known, n=1, cutoff=0.5)
            cure = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(known)}"
            raise InputError("metric", f"{metric!r} is nothing that the task {task} reports", cure)
        if mode not in ("", "max", "min"):
            raise InputError("metric", f"{text!r} has the mode {mode!r}", "write max or min after the colon")
        found.append(Objective(metric=metric, mode=mode or ("min" if metric == SECONDS else "max")))
    if len({objective.metric for objective in found}) < len(found):
        raise InputError("metric", "the same metric twice", "name each objective once")
    found.sort(key=lambda objective: objective.metric == SECONDS)
    if found and found[0].metric == SECONDS:
        what, cure = "seconds alone are least for what learns nothing", f"name {known[0]}, too"
        raise InputError("metric", what, cure)
    return tuple(found)
