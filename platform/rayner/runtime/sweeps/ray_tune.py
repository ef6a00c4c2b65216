"""A launch of Ray Tune: resources of trials, schedulers, search algorithms, environment."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rayner.config import BaseRecipe
from rayner.counted import counted
from rayner.errors import InputError
from rayner.runtime.cluster import ensure_ray, environment
from rayner.runtime.sweeps.domains import extremes, whole
from rayner.runtime.sweeps.folder import RAY
from rayner.runtime.sweeps.plan import Over, Plan
from rayner.runtime.sweeps.space import Space
from rayner.runtime.sweeps.sweep_settings import SEEDS, SweepSettings
from rayner.runtime.sweeps.sweep_tracking import trackers_of
from rayner.runtime.sweeps.trainable import settings_of, trainable_of
from rayner.runtime.sweeps.trials import read_trials

_TUNE = {
    # Paths of a recipe count from where the command runs.
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # Of what Ray Tune would write for each trial, only JSON is kept; TensorBoard has ours.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    # Else Ctrl-C would end the trials and train the best of those so far.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # The table is ours.
    "RAY_AIR_NEW_OUTPUT": "0",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrialResources:
    """Ray resources of each trial, and how many trials run concurrently."""

    each: Mapping[str, float]
    max_concurrent: int


def trial_resources(recipe: BaseRecipe, workers: int, max_concurrent: int | None = None) -> TrialResources:
    """What a trial takes of the cluster, so that trials never wait for each other's workers.

    Where the cluster has GPUs and the recipe does not say, a trial within its own process has one.

    Args:
        max_concurrent: trials on a cluster that grows with what they ask for; None for all that fit now.

    Raises:
        InputError: no trial fits, and `max_concurrent` is not given.
    """
    import ray

    ensure_ray()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    scaling = recipe.scaling
    cpus, gpus = scaling.cpus_per_worker, scaling.gpus_per_worker
    if not gpus and any(node.get("GPU") for node in nodes):
        if workers:
            hint = "set scaling.gpus_per_worker: 1"
            log.warning("there are GPUs, and the workers of each trial compute on CPUs: %s", hint)
        else:
            gpus = 1
    memory = int((scaling.memory_per_worker or 0) * 2**30)
    fit = sum(_fitting(node, cpus, gpus, memory) for node in nodes) // max(workers, 1)
    if not fit and max_concurrent is None:
        needed = f"{max(workers, 1)} x {cpus:g} CPU" + (f" and {gpus:g} GPU" if gpus else "")
        there = f"{sum(node.get('CPU', 0) for node in nodes):g} CPUs"
        hint = "add nodes, or give --max-concurrent: for how many trials the cluster is to grow"
        raise InputError("cluster", f"a trial needs {needed} on one node each, and there are {there}", hint)
    max_concurrent = max_concurrent or fit
    if max_concurrent > fit:
        log.warning("the cluster has resources for %d of %d trials until it grows", fit, max_concurrent)
    if workers:
        # The workers reserve what they need; a CPU for the trial itself could be the one that they lack.
        return TrialResources({"memory": 1}, max_concurrent)
    each = {"CPU": cpus, "GPU": gpus, "memory": memory}
    return TrialResources({name: value for name, value in each.items() if value}, max_concurrent)


def _fitting(node: Mapping[str, float], cpus: float, gpus: float, memory: int) -> int:
    """How many workers fit on a node."""
    needs = {"CPU": cpus, "GPU": gpus, "memory": memory}
    return min(int(node.get(name, 0) // need) for name, need in needs.items() if need)


def launch(
    plan: Plan,
    space: Space,
    resources: TrialResources,
    total: int,
    planned: Sequence[Mapping[str, Any]] | None,
    until: int | None = None,
) -> None:
    """One launch of Ray Tune, which knows nothing of earlier ones: each trial reports what it has done.

    A trial that is over reports within moments. So the scheduler and Optuna learn all that they knew, from
    files that a kill leaves whole, and a sweep may also be made longer. What Ray Tune itself leaves is an
    experiment in `OUT/ray/trials`, or `OUT/ray/rung-EPOCHS`, in the place of that of an earlier launch.

    Args:
        total: trials of the sweep, for the display.
        planned: the settings of the trials; None lets Optuna propose them.
        until: epochs after which trials are paused.

    Raises:
        NotSharedError: a node does not see the folder of the sweep.
        InputError: no trial has run for `RAYNER_WAIT_SECONDS`, as no node has had room.
    """
    from ray import tune
    from ray.tune.logger import JsonLoggerCallback

    from rayner.runtime.sweeps.callback import NotSharedStopper, SweepCallback, WaitsForRoom

    settings = plan.settings
    search, samples, trials = None, 1, read_trials(plan)
    if plan.uri is not None:
        states = ("finished", "stopped", "failed")
        over = {trial.name: Over(trial.reports, trial.error) for trial in trials if trial.state in states}
        plan = replace(plan, over=over)
    if planned is None:
        known = [trial.settings for trial in trials if trial.state != "failed"]
        samples = total - (len(trials) - len(known))
        search = optuna_search(space, settings, known[:samples])
    given = {"settings": tune.grid_search([dict(one) for one in planned])} if planned is not None else None
    name, storage = "trials" if until is None else f"rung-{until}", plan.out / RAY
    shutil.rmtree(storage / name, ignore_errors=True)
    callback = SweepCallback(plan, total, trackers_of(plan))
    tuner = tune.Tuner(
        tune.with_resources(trainable_of(plan, until), tune.PlacementGroupFactory([dict(resources.each)])),
        param_space=given,
        tune_config=tune.TuneConfig(
            search_alg=search,
            scheduler=scheduler_of(settings, space, plan.recipe),
            num_samples=samples,
            max_concurrent_trials=resources.max_concurrent,
            # Importing torch takes as long as many a short trial. Workers of their own would outlive a trial.
            reuse_actors=not settings.workers,
            trial_name_creator=lambda trial: plan.name_of(settings_of(plan, trial.config)),
            # Optuna may propose the same settings twice.
            trial_dirname_creator=lambda trial: f"{trial}-{trial.trial_id}",
        ),
        run_config=tune.RunConfig(
            name=name,
            storage_path=str(storage),
            callbacks=[callback, WaitsForRoom(resources.each), JsonLoggerCallback()],
            stop=NotSharedStopper(callback),
            failure_config=tune.FailureConfig(max_failures=settings.max_failures),
            verbose=0,
        ),
    )
    tuner.fit()
    if callback.not_shared is not None:
        raise callback.not_shared


@contextlib.contextmanager
def tune_environment(max_concurrent: int) -> Iterator[None]:
    """Set what Ray Tune reads from the environment and from loggers."""
    from rayner.runtime.sweeps.callback import show_cursor

    # It looks for files that a trial without a report does not have.
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)
    # It names its own folder after each launch.
    logging.getLogger("ray.tune.tune").setLevel(logging.WARNING)
    changes = {**_TUNE, "TUNE_MAX_PENDING_TRIALS_PG": str(max_concurrent)}
    try:
        with environment(changes):
            yield
    finally:
        if sys.stderr.isatty():
            show_cursor()


def most_epochs(settings: SweepSettings, space: Space, recipe: BaseRecipe) -> int:
    """Epochs of the longest trial, over all its runs; warns where early stopping could stop none."""
    searched = space.domains.get("training.epochs")
    epochs = [recipe.training.epochs] if searched is None else map(whole, extremes(searched))
    total = max(epochs) * settings.runs
    if total <= settings.grace_period:
        what = "a trial has %s and none is stopped before %d"
        log.warning(what, counted(total, "epoch"), settings.grace_period)
    return total


def scheduler_of(settings: SweepSettings, space: Space, recipe: BaseRecipe) -> Any:
    """Ray Tune's scheduler; None for one that stops nothing."""
    from ray.tune.schedulers import ASHAScheduler

    if settings.scheduler != "asha":
        return None
    total = most_epochs(settings, space, recipe)
    if total <= settings.grace_period:
        return None
    objective = settings.objectives[0]
    # The last rung lies before the end: a trial that has come so far must be left to write its result.
    return ASHAScheduler(
        time_attr="epochs",
        metric=objective.metric,
        mode=objective.mode,
        max_t=total - 0.5,  # pyright: ignore[reportArgumentType]
        grace_period=settings.grace_period,
        reduction_factor=settings.reduction_factor,
        stop_last_trials=False,
    )


def optuna_search(space: Space, settings: SweepSettings, known: Sequence[Mapping[str, Any]]) -> Any:
    """Optuna's tree-structured Parzen estimator, which is first given the trials that are known."""
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names = [objective.metric for objective in settings.objectives]
    modes = [objective.mode for objective in settings.objectives]
    several = len(names) > 1
    # Otherwise a sweep that is resumed would draw its first random trials once more.
    seed = (settings.seed + 1000 * len(known)) % SEEDS
    points = [dict(trial) for trial in known]
    return OptunaSearch(
        space=OptunaSearch.convert_search_space(dict(sorted(space.domains.items()))),
        metric=names if several else names[0],
        mode=modes if several else modes[0],
        points_to_evaluate=points or None,
        seed=seed,
    )
