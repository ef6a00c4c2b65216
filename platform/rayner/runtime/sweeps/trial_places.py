"""Where trials lie: in the folder of their sweep, or of one at a URI each at its own, `URI/trials/NAME`.

There it is put in place by the machine that trains it. The driver knows of it what it fetches from there.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rayner.errors import RaynerError
from rayner.files.fetching import copy_some
from rayner.files.manifests import MANIFEST, decode
from rayner.files.objects import Objects
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.run_checkpoints import LAST, LOG, RECIPE
from rayner.files.snapshots import is_aside
from rayner.runtime.sweeps.plan import TRIALS, Plan
from rayner.runtime.sweeps.trials import OUTCOME, RUN_RESULT, Report, read_progress, record_failure
from rayner.runtime.tracking import MLFLOW_RUN

SWEEP_NOTE = "sweep"
"""A file that says to which sweep the trial belongs."""
SECONDS_BETWEEN_LOOKS = 5
"""How often a trial looks what its workers have put in place."""


log = logging.getLogger(__name__)


def publication_of(plan: Plan, name: str) -> Publication:
    """What puts a trial in place; opened by its process alone."""
    return Publication(f"{plan.uri}/{TRIALS}/{name}")


def clear_of_others(begun: str, publication: Publication) -> None:
    """Remove what an earlier sweep at the same URI left of a trial with the same settings."""
    folder = publication.folder
    note = folder / SWEEP_NOTE
    if note.exists() and note.read_text("utf-8") == begun:
        return
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not is_aside(path.name):
            path.unlink()
    note.write_text(begun, "utf-8")
    publication.push()


@contextlib.contextmanager
def taken_over_in_silence(name: str) -> Iterator[None]:
    """End without an error where another process goes on with the trial: this one seemed lost, or Optuna has
    proposed its settings twice, or the sweep was started twice."""
    try:
        yield
    except TakenOverError as error:
        log.info("%s is left to who goes on with it: %s", name, error)


class FailedAttempt(RaynerError):
    """How an attempt of a trial at a URI failed, for its driver, where what caused an error does not come.
    The arguments are those of `record_failure`."""

    def __init__(self, error: str, diverged: bool, infrastructure: bool) -> None:
        super().__init__(error, diverged, infrastructure)
        self.failure = (error, diverged, infrastructure)

    def __str__(self) -> str:
        return self.failure[0]


def put_failure(folder: Path, publication: Publication, attempt: FailedAttempt) -> None:
    """Record how this attempt failed for the next one, on whatever machine, if the storage lets it be done.

    Raises:
        TakenOverError: another process goes on with the trial.
    """
    try:
        # Its workers may have written there, on another machine.
        publication.open()
        record_failure(folder, *attempt.failure)
        publication.push()
    except TakenOverError:
        raise
    except RaynerError as error:
        log.warning("%s", error)


@contextlib.contextmanager
def following(
    plan: Plan, settings: Mapping[str, Any], folder: Path, report: Callable[[Report], None]
) -> Iterator[None]:
    """Report the evaluations of workers that put the trial in place meanwhile, perhaps on other machines.

    Args:
        folder: where it lies on this machine, as before they began.
    """
    reported = len(read_progress(plan, folder, settings)[0])
    over = threading.Event()

    def look() -> None:
        nonlocal reported
        with TemporaryDirectory() as there:
            fetch_runs(plan, plan.name_of(settings), Path(there))
            reports, _ = read_progress(plan, Path(there), settings)
        for one in reports[reported:]:
            report(one)
        reported = len(reports)

    def look_now_and_then() -> None:
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            # Whatever a library raises: it is looked again.
            with contextlib.suppress(Exception):
                look()

    thread = threading.Thread(target=look_now_and_then, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    with contextlib.suppress(RaynerError):
        look()


def fetch_runs(plan: Plan, name: str, folder: Path) -> None:
    """Have in a folder how far the runs of a trial have come by now, without their checkpoints, unless it is
    there anyway.

    Raises:
        InputError, StorageError: the storage cannot be used.
    """
    if plan.uri is not None:
        names = {f"{run}/{file}" for run in plan.runs for file in (LOG, RECIPE, RUN_RESULT, MLFLOW_RUN)}
        copy_some(f"{plan.uri}/{TRIALS}/{name}", folder, names.__contains__)


def remove_last(plan: Plan, name: str) -> None:
    """Remove what a trial that is over would continue from: three times as much as the model.

    At a URI what is over is told there in the same moment: the trial is not begun anew, whoever is asked to.
    What the storage refuses is done at the end of the sweep.
    """
    folder = plan.out / TRIALS / name
    if plan.uri is None:
        for run in plan.runs:
            shutil.rmtree(folder / run / LAST, ignore_errors=True)
        return
    if not (folder / OUTCOME).exists():
        # The storage failed when it ended: what it goes on from is needed.
        return
    try:
        if _is_taken_over(plan):
            # By a driver whose trials these are now.
            return
        place, over = publication_of(plan, name), {OUTCOME: folder / OUTCOME}
        place.amend(lambda file: file.split("/")[1:2] == [LAST], over)
    except RaynerError as error:
        log.warning("%s of the trial %s stays for now: %s", LAST, name, error)


def _is_taken_over(plan: Plan) -> bool:
    assert plan.uri is not None
    try:
        data, _ = Objects(plan.uri, worked=True).read(MANIFEST)
    except FileNotFoundError:
        return False
    return decode(data, plan.uri).owner != plan.owner
