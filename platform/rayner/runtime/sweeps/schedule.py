"""How a sweep runs on a cluster: what a trial is given, how many run at once, who proposes and who stops."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayner.config import BaseRecipe
from rayner.errors import InputError
from rayner.runtime.cluster import ensure_ray
from rayner.runtime.sweeps.settings import SweepSettings
from rayner.runtime.sweeps.space import Space, draws, extremes, grid

DEFAULT_TRIALS = 16

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Room:
    """Ray resources of a trial, and how many trials run at once."""

    resources: Mapping[str, float]
    at_once: int


def room_for(recipe: BaseRecipe, workers: int, at_once: int | None = None) -> Room:
    """What a trial takes of the cluster, so that trials never wait for each other's workers.

    Where the cluster has GPUs and the recipe does not say, a trial within its own process has one.

    Args:
        at_once: trials at once on a cluster that grows with what they ask for; None for all that fit now.

    Raises:
        InputError: no trial fits, and `at_once` is not given.
    """
    import ray

    ensure_ray()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    scaling = recipe.scaling
    cpus, gpus = scaling.cpus_per_worker, scaling.gpus_per_worker
    if not workers and not gpus and any(node.get("GPU") for node in nodes):
        gpus = 1
    places = sum(_places(node, cpus, gpus) for node in nodes)
    fit = places // max(workers, 1)
    if not fit and at_once is None:
        needed = f"{max(workers, 1)} x {cpus:g} CPU" + (f" and {gpus:g} GPU" if gpus else "")
        there = f"{sum(node.get('CPU', 0) for node in nodes):g} CPUs"
        cure = "add nodes, or say with --at-once for how many trials the cluster shall grow"
        raise InputError("cluster", f"a trial needs {needed} on one node each, and there are {there}", cure)
    at_once = at_once or fit
    if at_once > fit:
        log.warning("the cluster has room for %d of %d trials at once until it grows", fit, at_once)
    if workers:
        # The workers reserve what they need; a CPU for the trial itself could be the one that they lack.
        return Room({"memory": 1}, at_once)
    return Room({"CPU": cpus, "GPU": gpus} if gpus else {"CPU": cpus}, at_once)


def _places(node: Mapping[str, float], cpus: float, gpus: float) -> int:
    places = int(node.get("CPU", 0) // cpus)
    return min(places, int(node.get("GPU", 0) // gpus)) if gpus else places


def planned_settings(space: Space, settings: SweepSettings) -> list[dict[str, Any]] | None:
    """The settings of all trials; None where Optuna finds them one by one.

    Raises:
        InputError: a grid over a range.
    """
    if settings.search == "optuna":
        return None
    if settings.search == "random":
        return draws(space, settings.trials or DEFAULT_TRIALS, settings.seed)
    everything = grid(space)
    if settings.trials is None or settings.trials >= len(everything):
        return everything
    log.info("%d of the %d trials of the grid, drawn at random", settings.trials, len(everything))
    return draws(space, settings.trials, settings.seed)


def most_epochs(settings: SweepSettings, space: Space, recipe: BaseRecipe) -> int:
    """Epochs of the longest trial, over all its runs; tells where stopping early could stop none."""
    searched = space.domains.get("training.epochs")
    total = (max(extremes(searched)) if searched is not None else recipe.training.epochs) * settings.runs
    if total <= settings.grace:
        log.warning("a trial has %d epochs and none is stopped before %d", total, settings.grace)
    return total


def scheduler_of(settings: SweepSettings, space: Space, recipe: BaseRecipe) -> Any:
    """Ray Tune's scheduler; None for one that stops nothing."""
    from ray.tune.schedulers import ASHAScheduler

    if settings.scheduler != "asha":
        return None
    total = most_epochs(settings, space, recipe)
    if total <= settings.grace:
        return None
    objective = settings.objectives[0]
    # The last rung lies before the end: a trial that has come so far must be left to write its result.
    return ASHAScheduler(
        time_attr="epochs",
        metric=objective.metric,
        mode=objective.mode,
        max_t=total - 0.5,  # pyright: ignore[reportArgumentType]
        grace_period=settings.grace,
        reduction_factor=settings.reduction,
        stop_last_trials=False,
    )


def optuna_search(space: Space, settings: SweepSettings, known: Sequence[Mapping[str, Any]]) -> Any:
    """Optuna's tree-structured Parzen estimator, which first takes up the trials that are known."""
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names = [objective.metric for objective in settings.objectives]
    modes = [objective.mode for objective in settings.objectives]
    several = len(names) > 1
    # Otherwise a sweep that goes on would draw its first random trials once more.
    seed = settings.seed + 1000 * len(known)
    points = [dict(trial) for trial in known]
    return OptunaSearch(
        space=OptunaSearch.convert_search_space(dict(space.domains)),
        metric=names if several else names[0],
        mode=modes if several else modes[0],
        points_to_evaluate=points or None,
        seed=seed,
    )
