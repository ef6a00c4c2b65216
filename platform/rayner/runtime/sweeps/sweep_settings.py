"""The settings of a sweep: how many trials, how they are chosen and stopped, by what they are compared."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import Field, PositiveInt, ValidationError, model_validator

from rayner.config import BaseRecipe, Settings
from rayner.errors import InputError
from rayner.runtime.sweeps.space import Space, check_task
from rayner.tasks.registry import task_of, train_task

Search = Literal["grid", "random", "optuna"]
Scheduler = Literal["none", "asha", "halving"]
Mode = Literal["max", "min"]

SEEDS = 2**32
"""NumPy's generator that Ray Tune draws with, and Optuna, know so many; a recipe may have one of more."""
SECONDS = "seconds"
"""The training time of all runs of a trial: an objective beside the metrics of the task."""


class Objective(Settings):
    """A metric, and whether more or less of it is better."""

    metric: str
    mode: Mode = "max"


class SweepSettings(Settings):
    """How a sweep goes.

    `trials` None is the whole grid, or 16. A trial is `folds` times `seeds` runs (`folds` 0: one split, the
    recipe's own), one after the other, and its score the mean over them. `held_out` is the part of the
    training items that no trial sees. ASHA compares a trial after `grace_period` epochs, `reduction_factor`
    times as many and so on with those before it, and stops it unless it is among the best of them, one of
    `reduction_factor`; halving waits there for all trials. A trial that fails is restarted `max_failures`
    times. `workers` are Ray Train workers of each trial; 0 trains within the trial's own process.
    `max_concurrent` None is as many trials as the cluster has resources for now.
    """

    trials: PositiveInt | None = None
    search: Search = "random"
    scheduler: Scheduler = "none"
    objectives: Annotated[tuple[Objective, ...], Field(min_length=1)]
    folds: Annotated[int, Field(ge=0)] = 0
    seeds: PositiveInt = 1
    held_out: Annotated[float, Field(ge=0, le=0.5)] = 0
    workers: Annotated[int, Field(ge=0)] = 0
    max_concurrent: PositiveInt | None = None
    grace_period: PositiveInt = 2
    reduction_factor: Annotated[int, Field(ge=2)] = 3
    max_failures: Annotated[int, Field(ge=0)] = 2
    seed: Annotated[int, Field(ge=0, lt=SEEDS)] = 1

    @model_validator(mode="after")
    def _fits_together(self) -> SweepSettings:
        if self.folds == 1:
            raise ValueError("folds is 1: cross-validation needs at least 2, and 0 is for none")
        if len(self.objectives) > 1 and self.scheduler != "none":
            raise ValueError(
                f"the scheduler {self.scheduler} compares by one metric, and there are "
                f"{len(self.objectives)}: choose the scheduler none or one metric"
            )
        if self.scheduler == "halving" and self.search == "optuna":
            raise ValueError(
                "halving compares all trials with each other, and Optuna proposes them one by one: "
                "choose the search random or grid, or the scheduler asha"
            )
        return self

    @property
    def runs(self) -> int:
        """Trainings of a trial."""
        return max(self.folds, 1) * self.seeds


def resolve_settings(
    space: Space, recipe: BaseRecipe, metrics: Sequence[str] = (), **given: Any
) -> SweepSettings:
    """The settings of a sweep: what is given, else what the space recommends, else the defaults.

    Args:
        metrics: objectives as `objectives` reads them; more than one are searched by Optuna and stop nothing.
        given: fields of `SweepSettings`; None is for one that is not given.

    Raises:
        InputError: the space is for another task, or the value that is wrong.
    """
    # Before its metric, which another task need not report.
    check_task(space, recipe)
    _check_recommended(space)
    recommended = space.metric or train_task(recipe).metric.name
    if space.metric and space.mode:
        recommended += f":{space.mode}"
    several = len(metrics) > 1
    defaults = {
        "search": "optuna" if several else space.search or "random",
        "scheduler": "none" if several else space.scheduler or "none",
        "workers": recipe.scaling.workers,
        "seed": recipe.seed % SEEDS,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    return sweep_settings(objectives=objectives(metrics or [recommended], recipe), **defaults | chosen)


def _check_recommended(space: Space) -> None:
    """Refuse what the file of a space recommends and no sweep knows, where the file says it."""
    if space.metric is not None and not isinstance(space.metric, str):
        hint = "one name as a text; several are given with --metric"
        raise InputError(f"space {space.name}", f"its METRIC is {space.metric!r}", hint)
    for name, value, known in (
        ("SEARCH", space.search, get_args(Search)),
        ("SCHEDULER", space.scheduler, get_args(Scheduler)),
        ("MODE", space.mode, get_args(Mode)),
    ):
        if value is not None and value not in known:
            hint = f"one of {', '.join(known)}, or None for the default"
            raise InputError(f"space {space.name}", f"its {name} is {value!r}", hint)


def sweep_settings(**values: object) -> SweepSettings:
    """Settings from values as a user gives them.

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

    Seconds come last: the winner is chosen by the first, of equal ones by the next.

    Raises:
        InputError: a metric that the recipe's task does not report, with the nearest that it does, or
            seconds alone.
    """
    modes: dict[str, Mode] = {**task_of(recipe).metrics, SECONDS: "min"}
    known = list(modes)
    found = []
    for text in texts:
        metric, _, mode = text.partition(":")
        if metric not in known:
            near = difflib.get_close_matches(metric, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(known)}"
            raise InputError("metric", f"the task {recipe.task} does not report {metric!r}", hint)
        if mode not in ("", "max", "min"):
            raise InputError("metric", f"{text!r} has the mode {mode!r}", "write max or min after the colon")
        found.append(Objective(metric=metric, mode=cast(Mode, mode or modes[metric])))
    if len({objective.metric for objective in found}) < len(found):
        raise InputError("metric", "the same metric twice", "name each objective once")
    found.sort(key=lambda objective: objective.metric == SECONDS)
    if found and found[0].metric == SECONDS:
        what, hint = "seconds alone choose the trial that learns nothing", f"name {known[0]}, too"
        raise InputError("metric", what, hint)
    return tuple(found)
