"""A trial, in a process of Ray Tune's: its runs one after the other, reported at each evaluation."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rayner.config import ScalingSettings
from rayner.errors import InputError
from rayner.runtime.checkpoints import LAST
from rayner.runtime.example_sets import build_examples
from rayner.runtime.locks import locked
from rayner.runtime.sweeps.tracking import note_parent
from rayner.runtime.sweeps.trials import (
    RUN_RESULT,
    Plan,
    Report,
    failures_of,
    note_failure,
    read_outcome,
    read_progress,
    write_outcome,
)
from rayner.runtime.tracking import Record
from rayner.runtime.train import train_until
from rayner.tasks.registry import train_task

SEED_AFTER_DIVERGING = 1000
"""Added to the seed of a run that begins again because its loss was no number."""

SECONDS_TO_DIE = 600
"""How long to wait for the process of a trial that was killed."""


def trial_of(plan: Plan, until: int | None = None) -> Callable[[dict[str, Any]], None]:
    """The function that Ray Tune calls with the settings of each trial; it ends after `until` epochs."""

    def trial(config: dict[str, Any]) -> None:
        run_trial(plan, settings_of(plan, config), _tell_tune, until)

    return trial


def settings_of(plan: Plan, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a configuration of Ray Tune's: those of a list of trials have a key of their own."""
    from rayner.runtime.sweeps.space import tidy

    return tidy(config.get("settings", config), plan.drawn)


def run_trial(
    plan: Plan, settings: Mapping[str, Any], tell: Callable[[Report], None], until: int | None = None
) -> None:
    """Do what is left to do of a trial; what was done before a kill is reported again, in its order.

    Args:
        until: epochs, over all runs, after which it pauses.

    Raises:
        DivergedError: the loss is no number; called again, it starts the run over with another seed.
        InputError: the settings do not go together; called again, it fails at once.
    """
    os.chdir(plan.working_folder)
    folder = plan.folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    # A process of the sweep that was killed may take some seconds to die.
    with locked(folder / ".lock", "works on this trial", SECONDS_TO_DIE):
        outcome = read_outcome(folder)
        if outcome is not None and outcome["state"] == "failed":
            raise InputError("trial", outcome["error"])
        reports, _ = read_progress(plan, folder, settings)
        for report in reports:
            tell(report)
        if outcome is None or outcome["state"] == "waiting":
            _run_all(plan, settings, folder, tell, until)


def _run_all(
    plan: Plan,
    settings: Mapping[str, Any],
    folder: Path,
    tell: Callable[[Report], None],
    until: int | None,
) -> None:
    epochs = plan.epochs_of(settings)

    def latest() -> None:
        tell(read_progress(plan, folder, settings)[0][-1])

    try:
        for changes in plan.runs.values():
            plan.recipe_of(settings, changes)
    except InputError as error:
        note_failure(folder, error, lasting=True)
        write_outcome(folder, "failed", str(error))
        raise
    try:
        for number, (name, changes) in enumerate(plan.runs.items()):
            left = None if until is None else until - number * epochs
            if left is not None and left <= 0:
                return
            if not (folder / name / RUN_RESULT).exists():
                if not _train(plan, settings, changes, folder / name, _AtEvaluations(latest), left):
                    return
                latest()
            # The run is over, and its optimizer takes twice the room of its model.
            shutil.rmtree(folder / name / LAST, ignore_errors=True)
    except Exception as error:
        # A place that is searched is one that nobody else can mend.
        lasting = isinstance(error, InputError) and error.where in settings
        note_failure(folder, error, lasting)
        if lasting:
            write_outcome(folder, "failed", str(error))
        raise


def _train(
    plan: Plan,
    settings: Mapping[str, Any],
    changes: Mapping[str, Any],
    out: Path,
    watch: _AtEvaluations,
    until: int | None,
) -> bool:
    """Whether the run came to its end, and does not pause."""
    failures = failures_of(out.parent)
    diverged = sum(failure["diverged"] for failure in failures)
    seed = changes["seed"] + SEED_AFTER_DIVERGING * diverged
    recipe = plan.recipe_of(settings, {**changes, "seed": seed})
    scaling, workers = recipe.scaling, plan.settings.workers
    if workers:
        # Within Ray Data, building would ask for CPUs that the trials' workers hold.
        build_examples(train_task(recipe), "train", plan.cache)
    else:
        set_threads(scaling)
    note_parent(plan, out)
    begun = out / "recipe.yaml"
    fresh = bool(failures) and failures[-1]["diverged"] and begun.exists() and not _has_seed(begun, seed)
    return train_until(until, recipe, out, fresh, workers, plan.cache, watch) is not None


def set_threads(scaling: ScalingSettings) -> None:
    """Let torch use what a trial within its own process has reserved, or what the recipe says."""
    import torch

    torch.set_num_threads(scaling.threads_per_worker or max(1, int(scaling.cpus_per_worker)))


def _has_seed(recipe: Path, seed: int) -> bool:
    return f"seed: {seed}\n" in recipe.read_text(encoding="utf-8")


class _AtEvaluations:
    """Calls a function at each evaluation of a run."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def write(self, record: Record) -> None:
        """Call it if the record is of an evaluation."""
        if "metrics" in record:
            self._call()

    def close(self) -> None:
        """Nothing is open."""


def _tell_tune(report: Report) -> None:
    from ray import tune

    tune.report(json.loads(json.dumps(report)))
