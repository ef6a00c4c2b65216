"""Sweeps: many trainings of one recipe with other settings, and the recipe of the best."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rayner.config import BaseRecipe
from rayner.runtime.example_sets import build_examples
from rayner.runtime.sweeps.corpora import FOLDER as CORPORA
from rayner.runtime.sweeps.corpora import Corpora, cut_corpora
from rayner.runtime.sweeps.rounds import run_rounds
from rayner.runtime.sweeps.schedule import (
    DEFAULT_TRIALS,
    Room,
    most_epochs,
    optuna_search,
    planned_settings,
    room_for,
    scheduler_of,
)
from rayner.runtime.sweeps.settings import SweepSettings
from rayner.runtime.sweeps.space import Space, check_space, described, key_of, ranges, single_values
from rayner.runtime.sweeps.storage import check_shared, check_writable, sweep_folder
from rayner.runtime.sweeps.tracking import begin_mlflow, end_mlflow, write_hparams
from rayner.runtime.sweeps.trial import trial_of
from rayner.runtime.sweeps.trials import Plan, begin_mended, read_trials, run_names, write_json
from rayner.runtime.sweeps.winner import BEST_RECIPE, conclude_sweep
from rayner.runtime.train import CACHE_VARIABLE
from rayner.tasks.registry import train_task

RESULT = "result.json"
_TUNE = {
    # Paths of a recipe count from where the command runs.
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # What Ray Tune would write for each trial is in our own files.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    # Who presses Ctrl-C would else get the winner of the trials so far, and the training of it.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # The table is ours.
    "RAY_AIR_NEW_OUTPUT": "0",
}

log = logging.getLogger(__name__)


def sweep(
    space: Space, recipe: BaseRecipe, out: Path, settings: SweepSettings, fresh: bool = False
) -> dict[str, Any]:
    """Search a space, or go on with the sweep in `out`: trials that are over are kept, others go on.

    Args:
        out: the folder of the sweep. All nodes must see it.
        settings: more `trials` than before add to the sweep that is there.
        fresh: remove what an earlier sweep left in `out`.

    Returns:
        `best` (the path of a recipe), `settings`, `score` and `spread` of the best trial, the 95 % `interval`
        of its first objective and how many other trials lie `within_interval` (None for several runs),
        `trials` (counts by state), `winner` (the run of the best recipe with another seed), `pareto`,
        `seconds`.

    Raises:
        InputError: the space, the recipe or the folder cannot be used; nothing was started.
        RaynerError: no trial finished.
    """
    begin = time.perf_counter()
    check_space(space, recipe, cut=bool(settings.folds or settings.held_out))
    planned = planned_settings(space, settings)
    out = Path(out).absolute()
    nature = {
        "space": described(space),
        "recipe": recipe.model_dump(mode="json"),
        "settings": settings.model_dump(mode="json"),
    }
    # Before `fresh` removes an earlier sweep.
    check_writable(out)
    room = room_for(recipe, settings.workers, settings.at_once)
    check_shared(out)
    with sweep_folder(out, fresh, nature):
        corpora = cut_corpora(recipe, out / CORPORA, settings.folds, settings.held_out)
        plan = _plan(space, recipe, settings, out, corpora, nature)
        _prepare(plan)
        _run(plan, space, planned, room)
        trials = read_trials(plan)
        write_hparams(plan, trials)
        result = conclude_sweep(plan, corpora, trials, room)
        result["seconds"] = round(time.perf_counter() - begin, 1)
        write_json(out / RESULT, result)
        end_mlflow(plan.mlflow_parent, result["score"], [out / BEST_RECIPE])
        return result


def _plan(
    space: Space,
    recipe: BaseRecipe,
    settings: SweepSettings,
    out: Path,
    corpora: Corpora,
    nature: Mapping[str, Any],
) -> Plan:
    runs = {name: {**corpora.folds[fold], "seed": seed} for name, fold, seed in run_names(recipe, settings)}
    parameters = nature["space"] | {k: v for k, v in nature["settings"].items() if k != "objectives"}
    return Plan(
        recipe=recipe,
        settings=settings,
        out=out,
        cache=Path(os.environ.get(CACHE_VARIABLE, out / ".examples")).absolute(),
        runs=runs,
        working_folder=Path.cwd(),
        mlflow_parent=begin_mlflow(recipe, out, parameters),
        drawn=ranges(space),
        fixed=single_values(space),
    )


def _prepare(plan: Plan) -> None:
    """Build the example sets of the recipe as it is; most spaces search nothing that they depend on."""
    seen: set[str] = set()
    for changes in plan.runs.values():
        corpus = {key: value for key, value in changes.items() if key != "seed"}
        if (key := key_of(corpus)) not in seen:
            seen.add(key)
            build_examples(train_task(plan.recipe_of({}, corpus)), "train", plan.cache)


def _run(plan: Plan, space: Space, planned: Sequence[Mapping[str, Any]] | None, room: Room) -> None:
    settings = plan.settings
    begin_mended(plan)
    trials = read_trials(plan)
    failed = {trial.key for trial in trials if trial.state == "failed"}
    total = len(planned) if planned is not None else settings.trials or DEFAULT_TRIALS
    able = [one for one in planned if key_of(one) not in failed] if planned is not None else None
    left = len(able) if able is not None else total - len(failed)
    if left <= 0:
        return
    if trials and all(t.state in ("finished", "stopped", "failed") for t in trials) and len(trials) >= total:
        log.info("all %d trials are over; --trials adds more, --fresh starts over", total)
        return
    # Of an earlier launch, with fewer trials.
    for name in (RESULT, BEST_RECIPE):
        (plan.out / name).unlink(missing_ok=True)
    log.info("%d trials, %d at once", total, min(room.at_once, left))
    with _environment(room.at_once):
        fit = partial(_fit, plan, space, room, total)
        if settings.scheduler == "halving" and planned is not None:
            # With those that failed: they have their places among the trials that they were compared with.
            run_rounds(plan, planned, most_epochs(settings, space, plan.recipe), fit)
        elif able is not None:
            fit(able)
        else:
            _search(plan, total, fit)
    shutil.rmtree(plan.out / "ray", ignore_errors=True)


def _search(plan: Plan, total: int, fit: Callable[[None], None]) -> None:
    """Launch until there are as many trials, or none is new: Optuna also proposes what it knows."""
    before = -1
    while before < 0 or before < len(read_trials(plan)) < total:
        before = len(read_trials(plan))
        fit(None)


def _fit(
    plan: Plan,
    space: Space,
    room: Room,
    total: int,
    planned: Sequence[Mapping[str, Any]] | None,
    until: int | None = None,
) -> None:
    """One launch of Ray Tune, which knows nothing of earlier ones: each trial reports what it has done.

    A trial that is over reports within moments. So the scheduler and Optuna learn all that they knew, from
    files that a kill leaves whole, and a sweep may also be made longer.
    """
    from ray import tune

    from rayner.runtime.sweeps.board import Board

    settings = plan.settings
    search, samples = None, 1
    if planned is None:
        trials = read_trials(plan)
        known = [trial.settings for trial in trials if trial.state != "failed"]
        samples = total - (len(trials) - len(known))
        search = optuna_search(space, settings, known[:samples])
    given = {"settings": tune.grid_search([dict(one) for one in planned])} if planned is not None else None
    tuner = tune.Tuner(
        tune.with_resources(trial_of(plan, until), tune.PlacementGroupFactory([dict(room.resources)])),
        param_space=given,
        tune_config=tune.TuneConfig(
            search_alg=search,
            scheduler=scheduler_of(settings, space, plan.recipe),
            num_samples=samples,
            max_concurrent_trials=room.at_once,
            # Importing torch takes as long as many a short trial. Workers of their own would outlive a trial.
            reuse_actors=not settings.workers,
        ),
        run_config=tune.RunConfig(
            name=f"launch-{time.time_ns()}",
            storage_path=str(plan.out / "ray"),
            callbacks=[Board(plan, total)],
            failure_config=tune.FailureConfig(max_failures=settings.retries),
            verbose=0,
        ),
    )
    tuner.fit()


@contextlib.contextmanager
def _environment(at_once: int) -> Iterator[None]:
    from rayner.runtime.sweeps.board import show_cursor

    # It looks for the files that were not to be written.
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)
    # It names the folder of its own state, which is of no use to the user.
    logging.getLogger("ray.tune.tune").setLevel(logging.WARNING)
    changes = {**_TUNE, "TUNE_MAX_PENDING_TRIALS_PG": str(at_once)}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        if sys.stderr.isatty():
            show_cursor()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
