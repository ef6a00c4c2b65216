"""The function with which Ray Tune trains a trial: its runs in turn, reported at each evaluation."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rayner.config import ScalingSettings
from rayner.data.warned_once import leave_unsaid, said
from rayner.errors import DivergedError, InputError, StorageError
from rayner.files.locks import LOCK, locked
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.run_checkpoints import LAST
from rayner.files.working import worked_on
from rayner.runtime.cluster import secrets
from rayner.runtime.faults import lost_errors
from rayner.runtime.shared_folder import check_visible
from rayner.runtime.sweeps.plan import TRIALS, Plan
from rayner.runtime.sweeps.sampling import tidy
from rayner.runtime.sweeps.sweep_tracking import link_to_trial
from rayner.runtime.sweeps.trial_places import (
    FailedAttempt,
    clear_of_others,
    following,
    publication_of,
    put_failure,
    taken_over_in_silence,
)
from rayner.runtime.sweeps.trials import (
    RUN_RESULT,
    Report,
    attempt_seed,
    diverged_of,
    is_of_another,
    read_outcome,
    read_progress,
    record_failure,
    write_outcome,
)
from rayner.runtime.tracking import Record
from rayner.runtime.training.example_building import build_examples, find_units
from rayner.runtime.training.train import train_until
from rayner.runtime.training.train_controller import end_workers, give_up_room
from rayner.tasks.registry import train_task

_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE, errno.ETIMEDOUT}

_ended = threading.Event()
"""Whether the only trial of this process was ended: what its training raises then means nothing."""

SECONDS_TO_DIE = 600
"""How long to wait for the process of a trial that was killed."""


def trainable_of(plan: Plan, until: int | None = None) -> type:
    """What Ray Tune calls with the settings of each trial; it ends after `until` epochs."""
    from ray.tune.trainable import wrap_function

    told, given = said(), secrets()

    def trainable(config: dict[str, Any]) -> None:
        # Of the data, the driver has: each trial would repeat it.
        leave_unsaid(told)
        os.environ.update(given)
        run_trial(plan, settings_of(plan, config), _report_to_tune, until)

    class Trial(wrap_function(trainable)):
        def __repr__(self) -> str:
            """What Ray shows of its actor. It asks once, when it makes one, which may take several trials."""
            return str(self.trial_name) if plan.settings.workers else f"trials of {plan.out.name}"

        def cleanup(self) -> None:
            """Called at the end of a trial, also of one that is stopped while it trains."""
            if plan.settings.workers:
                end_trial(plan, settings_of(plan, self.config))
            # Ray's own handler raises wherever the process is at its end: a traceback that the driver shows.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            super().cleanup()

    return Trial


def end_trial(plan: Plan, settings: Mapping[str, Any]) -> None:
    """End the workers of a trial that is stopped while it trains: they would keep their room."""
    _ended.set()
    folder = plan.folder(settings)
    if plan.uri is not None:
        folder = publication_of(plan, folder.name).folder
    for name in plan.runs:
        end_workers(folder / name)


def settings_of(plan: Plan, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a configuration of Ray Tune's: those of a list of trials have a key of their own."""
    return tidy(config.get("settings", config), plan.drawn)


def run_trial(
    plan: Plan, settings: Mapping[str, Any], report: Callable[[Report], None], until: int | None = None
) -> None:
    """Do what is left to do of a trial; what was done before a kill is reported again, in its order.

    Args:
        until: epochs, over all runs, after which it pauses.

    Raises:
        NotSharedError: this node does not see the folder of the sweep.
        DivergedError: the loss is not finite; called again, it starts the run over with another seed.
        FailedAttempt: of a sweep at a URI, that and all that follows.
        InputError: the settings do not go together; called again, it fails at once.
    """
    if plan.marker is not None:
        check_visible(plan.marker)
    if plan.uri is None or plan.working_folder.is_dir():
        os.chdir(plan.working_folder)
    name, doing = plan.name_of(settings), "works on this trial"
    if (over := plan.over.get(name)) is not None:
        if over.error is not None:
            raise InputError("trial", over.error)
        for done in over.reports:
            report(dict(done))
        return
    # A process of the sweep that was killed may take some seconds to die.
    with (
        taken_over_in_silence(name),
        worked_on(plan.place(TRIALS, name), doing, seconds=SECONDS_TO_DIE, keeps=False) as at_work,
        locked(at_work[0] / LOCK, doing, SECONDS_TO_DIE),
    ):
        folder, publication = at_work
        if publication is not None:
            clear_of_others(plan.begun, publication)
        for run in plan.runs:
            give_up_room(folder / run)
        outcome = read_outcome(folder)
        if outcome is not None and outcome["state"] == "failed" and publication is None:
            raise InputError("trial", outcome["error"])
        reports, _ = read_progress(plan, folder, settings)
        for done in reports:
            report(done)
        if outcome is None or outcome["state"] not in ("finished", "stopped"):
            _run_all(plan, settings, folder, publication, report, until)


def _run_all(
    plan: Plan,
    settings: Mapping[str, Any],
    folder: Path,
    publication: Publication | None,
    report: Callable[[Report], None],
    until: int | None,
) -> None:
    epochs = plan.epochs_of(settings)

    def report_latest() -> None:
        if publication is not None:
            # What is reported may end the trial, and its score must be there then.
            publication.push()
        report(read_progress(plan, folder, settings)[0][-1])

    try:
        for changes in plan.runs.values():
            plan.recipe_of(settings, changes)
    except InputError as error:
        record_failure(folder, str(error))
        write_outcome(folder, "failed", str(error))
        raise
    try:
        for number, (name, changes) in enumerate(plan.runs.items()):
            left = None if until is None else until - number * epochs
            if left is not None and left <= 0:
                return
            if not (folder / name / RUN_RESULT).exists():
                follows = publication is not None and plan.settings.workers > 0
                watch = _AtEvaluations(report_latest if not follows else lambda: None)
                with following(plan, settings, folder, report) if follows else nullcontext():
                    is_over = _train(plan, settings, changes, folder / name, publication, watch, left)
                if not is_over:
                    return
                report_latest()
            # The run is over, and its optimizer takes twice as much as its model.
            shutil.rmtree(folder / name / LAST, ignore_errors=True)
    except Exception as error:
        if _ended.is_set() or isinstance(error, TakenOverError):
            raise
        if publication is not None:
            attempt = FailedAttempt(*failure_of(error))
            put_failure(folder, publication, attempt)
            raise attempt from error
        record_failure(folder, *failure_of(error))
        # The settings of the trial are wrong: no other attempt can succeed.
        if isinstance(error, InputError) and error.where in settings:
            write_outcome(folder, "failed", str(error))
        raise


def failure_of(error: Exception) -> tuple[str, bool, bool]:
    """What `record_failure` records of an error."""
    text = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    diverged = isinstance(error, DivergedError)
    if diverged:
        # What to do about it is said of a training alone: --fresh would remove the sweep.
        text = f"{error.where}: {error.what}"
    return text, diverged, is_infrastructure(error)


def _train(
    plan: Plan,
    settings: Mapping[str, Any],
    changes: Mapping[str, Any],
    out: Path,
    publication: Publication | None,
    watch: _AtEvaluations,
    until: int | None,
) -> bool:
    """Whether the run came to its end, and does not pause."""
    diverged = diverged_of(out.parent)
    seed = attempt_seed(changes, diverged)
    recipe = plan.recipe_of(settings, {**changes, "seed": seed})
    scaling, workers = recipe.scaling, plan.settings.workers
    if workers:
        # Within Ray Data, building would ask for CPUs that the trials' workers hold.
        task = train_task(recipe)
        build_examples(task, plan.cache)
        find_units(task, "dev", plan.cache)
        find_units(task, "calibration", plan.cache)
    else:
        set_threads(scaling)
    link_to_trial(plan, out)
    # The last failure may be of another kind, and have come before the later seed had begun.
    fresh = diverged > 0 and is_of_another(out, seed)
    return train_until(until, recipe, out, fresh, workers, plan.cache, watch, publication) is not None


def set_threads(scaling: ScalingSettings) -> None:
    """Let torch use what a trial within its own process has reserved, or what the recipe says."""
    import torch

    torch.set_num_threads(scaling.threads_per_worker or max(1, int(scaling.cpus_per_worker)))


class _AtEvaluations:
    """Calls a function at each evaluation of a run."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def write(self, record: Record) -> None:
        """Call it if the record has an evaluation."""
        if "metrics" in record:
            self._call()

    def close(self) -> None:
        """Nothing is open."""


def is_infrastructure(error: BaseException) -> bool:
    """Whether a process, a node or the storage failed, and not the training.

    Memory that runs out in the training itself is no such failure: its settings may be why.
    """
    from ray.exceptions import OutOfDiskError, RaySystemError

    lost = (*lost_errors(), OutOfDiskError, RaySystemError)
    return not isinstance(error, DivergedError) and any(
        isinstance(one, StorageError)
        # An actor that failed as it was made raised an exception of its own.
        or (isinstance(one, lost) and not getattr(one, "actor_init_failed", False))
        or (isinstance(one, OSError) and one.errno in _STORAGE_ERRORS)
        for one in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it, in Ray's workers too."""
    yield error
    # Of Ray's tasks, and of Ray Train's controller, workers and their health checks.
    names = ("cause", "controller_failure", "health_check_failure")
    inner = [error.__cause__, *(getattr(error, name, None) for name in names)]
    inner += getattr(error, "worker_failures", {}).values()
    for one in inner:
        if isinstance(one, BaseException) and one is not error:
            yield from _causes(one)


def _report_to_tune(report: Report) -> None:
    from ray import tune

    tune.report(json.loads(json.dumps(report)))
