"""Where the numbers of a run go: `OUT/log.jsonl`, TensorBoard, MLflow, and whoever watches."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rayner.config import BaseRecipe
from rayner.data.warned_once import warn_once
from rayner.errors import RecipeError, StorageError
from rayner.files.run_checkpoints import LOG
from rayner.files.whole import write_bytes

MLFLOW_VARIABLE = "MLFLOW_TRACKING_URI"
MLFLOW_RUN, MLFLOW_PARENT = "mlflow_run", "mlflow_parent"
"""Files in a run's folder: the id of its run in MLflow, and of the one above it, such as a sweep's."""
_LONGEST_ERROR = 300
_INSTALL = "pip install 'rayner[track]'"

log = logging.getLogger(__name__)

Record = Mapping[str, Any]


class Tracker(Protocol):
    """One place that records go to.

    A record of steps has `step, steps, epoch, loss, parts, learning_rate, words_per_second, padding,
    seconds, eta` and, on a GPU, `gpu_memory` in bytes; one of an evaluation `step, epoch, seconds, metrics`:
    there the epoch is how many are over, with a fraction within one.
    """

    def write(self, record: Record) -> None:
        """Take a record."""
        ...

    def close(self) -> None:
        """The run is over, or has failed."""
        ...


@contextlib.contextmanager
def tracked(out: Path, recipe: BaseRecipe, step: int, watchers: Sequence[Tracker]) -> Iterator[list[Tracker]]:
    """The trackers of a run that goes on at `step`, closed at the end.

    Raises:
        RecipeError: the recipe asks for MLflow, which is not installed.
        StorageError: its server is not there, and the run has none above it.
    """
    trackers: list[Tracker] = [JsonLines(out / LOG, step), TensorBoard(out / "tensorboard", step)]
    if wants_mlflow(recipe):
        try:
            trackers.append(MLflow(recipe, out))
        except StorageError as error:
            # What is above it was refused when it began, as this run is where it has nothing above it.
            if not (out / MLFLOW_PARENT).exists():
                raise
            log.warning("not tracked: the training in %s (%s)", out, error)
    trackers.extend(watchers)
    try:
        yield trackers
    except BaseException as error:
        ended = isinstance(error, KeyboardInterrupt | SystemExit)
        for tracker in trackers:
            if isinstance(tracker, MLflow):
                tracker.status = "KILLED" if ended else "FAILED"
        raise
    finally:
        for tracker in trackers:
            tracker.close()


def scalars(record: Record) -> dict[str, float]:
    """The numbers of a record by name: `train/loss`, `train/parts/span`, `dev/f1`."""
    prefix = "dev" if "metrics" in record else "train"
    values = {key: value for key, value in record.items() if key not in ("step", "steps")}
    values = record.get("metrics", values)
    found = {}
    for name, value in values.items():
        inner = value.items() if name == "parts" else [(None, value)]
        for part, number in inner:
            if isinstance(number, (int, float)):
                found["/".join(filter(None, (prefix, name, part)))] = float(number)
    return found


class JsonLines:
    """A line of JSON a record. Lines of steps that a resumed run takes again are dropped."""

    def __init__(self, path: Path, step: int) -> None:
        kept = []
        if path.exists():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    if json.loads(line)["step"] <= step:
                        kept.append(line + "\n")
        write_bytes(path, "".join(kept).encode())
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: Record) -> None:
        """Append the record and hand it to the system at once."""
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard:
    """Event files."""

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def write(self, record: Record) -> None:
        """A point on each curve."""
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, record["step"])

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()


@contextlib.contextmanager
def mlflow_answers() -> Iterator[None]:
    """Within it, what MLflow refuses, or a server that is not there, is an error of one line.

    Raises:
        StorageError: that error; a password that the server's address holds is not in it.
    """
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        told = re.sub(r"//[^/@\s]*@", "//", " ".join(str(error).split()))
        hint = f"start its server, correct {MLFLOW_VARIABLE}, or leave it and tracking.mlflow out"
        raise StorageError("MLflow", told[:_LONGEST_ERROR], hint) from None


class WhileItAnswers:
    """What is sent to MLflow beside work of hours, which goes on without it once a call has failed.

    Args:
        what: what is not tracked then: `the rest of the training in OUT`.
    """

    def __init__(self, what: str) -> None:
        self._what, self._has_failed = what, False

    def __call__(self, send: Callable[[], object]) -> None:
        """Send, or warn and go on."""
        if self._has_failed:
            return
        try:
            with mlflow_answers():
                send()
        except (StorageError, OSError) as error:
            self._has_failed = True
            log.warning("not tracked: %s (%s)", self._what, error)


def check_mlflow(recipe: BaseRecipe) -> None:
    """Refuse a recipe that would be tracked by MLflow and cannot be now.

    Raises:
        RecipeError: MLflow is not installed.
        StorageError: its server is not there.
    """
    if wants_mlflow(recipe):
        import mlflow

        with mlflow_answers():
            mlflow.MlflowClient().get_experiment_by_name(recipe.tracking.experiment)


class MLflow:
    """A run in MLflow, the same one when our run is resumed; `status` is how it ends."""

    def __init__(self, recipe: BaseRecipe, out: Path) -> None:
        import mlflow

        self._mlflow = mlflow
        self._out = out
        self.status = "FINISHED"
        self._while_it_answers = WhileItAnswers(f"the rest of the training in {out}")
        try:
            with mlflow_answers():
                self._start(recipe, out)
        except StorageError:
            # It may have begun: the next run of this process would find it active.
            with contextlib.suppress(StorageError, OSError), mlflow_answers():
                mlflow.end_run()
            raise

    def _start(self, recipe: BaseRecipe, out: Path) -> None:
        mlflow = self._mlflow
        mlflow.set_experiment(recipe.tracking.experiment)
        known, parent = out / MLFLOW_RUN, out / MLFLOW_PARENT
        if known.exists():
            mlflow.start_run(run_id=known.read_text().strip())
        else:
            above = parent.read_text().strip() if parent.exists() else None
            # The runs of a sweep's trials have the same names within each trial.
            name = out.resolve().name if above is None else f"{out.resolve().parent.name} {out.name}"
            active = mlflow.start_run(run_name=name, parent_run_id=above)
            mlflow.log_params(dict(_parameters(recipe)))
            known.write_text(active.info.run_id)

    def write(self, record: Record) -> None:
        """A point on each curve."""
        self._while_it_answers(lambda: self._mlflow.log_metrics(scalars(record), step=record["step"]))

    def close(self) -> None:
        """End the MLflow run, of which this process has one at a time, whatever failed before."""
        end = WhileItAnswers(f"the end of the training in {self._out}")
        end(lambda: self._mlflow.end_run(self.status))


def wants_mlflow(recipe: BaseRecipe) -> bool:
    """Whether the recipe asks for MLflow, or the environment names a server and MLflow is installed.

    Raises:
        RecipeError: the recipe asks for it and it is not installed.
    """
    installed = importlib.util.find_spec("mlflow") is not None
    if recipe.tracking.mlflow and not installed:
        raise RecipeError("tracking.mlflow", "mlflow is not installed", _INSTALL)
    if not installed and os.environ.get(MLFLOW_VARIABLE):
        warn_once(log, f"{MLFLOW_VARIABLE} has no effect: mlflow is not installed; {_INSTALL}")
    return installed and (recipe.tracking.mlflow or MLFLOW_VARIABLE in os.environ)


def _parameters(recipe: BaseRecipe) -> Iterator[tuple[str, str]]:
    """Every setting by its dotted key, as far as MLflow's 500 characters go."""
    values: list[tuple[str, Any]] = list(recipe.model_dump(mode="json").items())
    for key, value in values:
        if isinstance(value, dict):
            values.extend((f"{key}.{inner}", v) for inner, v in value.items())
        else:
            yield key, str(value)[:500]
