"""Where trials lie: in the folder of their sweep, or of one at a URI each at its own, `URI/trials/NAME`.

There it is put in place by the machine that trains it. The driver knows of it what it fetches from there.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rayner.errors import RaynerError
from rayner.files.fetching import copy_some
from rayner.files.publishing import Publication
from rayner.files.run_checkpoints import LAST, LOG
from rayner.files.snapshots import is_aside
from rayner.runtime.sweeps.plan import TRIALS, Plan
from rayner.runtime.sweeps.trials import RUN_RESULT, Report, read_progress, record_failure
from rayner.runtime.tracking import MLFLOW_RUN

BEGUN = "sweep"
"""A file that says to which sweep the trial belongs."""
SECONDS_BETWEEN_LOOKS = 5
"""How often a trial looks what its workers have put in place."""


def publication_of(plan: Plan, name: str) -> Publication:
    """What puts a trial in place; opened by its process alone."""
    return Publication(f"{plan.uri}/{TRIALS}/{name}")


def keep_if_of(begun: str, publication: Publication) -> None:
    """Remove what an earlier sweep at the same URI left of a trial with the same settings."""
    folder = publication.folder
    note = folder / BEGUN
    if note.exists() and note.read_text("utf-8") == begun:
        return
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not is_aside(path.name):
            path.unlink()
    note.write_text(begun, "utf-8")
    publication.push()


def put_failure(
    folder: Path, publication: Publication, error: str, diverged: bool, infrastructure: bool
) -> None:
    """Record how this attempt failed for the next one, on whatever machine; the driver knows it anyway."""
    with contextlib.suppress(RaynerError):
        # Its workers may have written there, on another machine.
        publication.open()
        record_failure(folder, error, diverged, infrastructure)
        publication.push()


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
            with contextlib.suppress(RaynerError):
                look()

    thread = threading.Thread(target=look_now_and_then, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def fetch_runs(plan: Plan, name: str, folder: Path) -> None:
    """Have in a folder how far the runs of a trial have come by now, without their checkpoints, unless it is
    there anyway.

    Raises:
        InputError, StorageError: the storage cannot be used.
    """
    if plan.uri is not None:
        names = {f"{run}/{file}" for run in plan.runs for file in (LOG, RUN_RESULT, MLFLOW_RUN)}
        copy_some(f"{plan.uri}/{TRIALS}/{name}", folder, names.__contains__)


def remove_last(plan: Plan, name: str) -> None:
    """Remove what a trial that is over would continue from: three times as much as the model.

    Raises:
        InputError, StorageError: the storage cannot be used.
    """
    if plan.uri is not None:
        publication_of(plan, name).drop(lambda file: file.split("/")[1:2] == [LAST])
        return
    for run in plan.runs:
        shutil.rmtree(plan.out / TRIALS / name / run / LAST, ignore_errors=True)
