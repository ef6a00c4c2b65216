"""A sweep in TensorBoard (its HParams page) and in MLflow (its trials, and below them their trainings).

A trial is there from its start, so that it can be followed, and after a kill it is there as far as it came.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rayner.config import BaseRecipe
from rayner.runtime.sweeps.gauges import Gauges
from rayner.runtime.sweeps.plan import TRIALS, Plan
from rayner.runtime.sweeps.sweep_settings import SECONDS
from rayner.runtime.sweeps.trials import Trial, diverged_of
from rayner.runtime.tracking import (
    MLFLOW_PARENT,
    MLFLOW_RUN,
    WhileItAnswers,
    mlflow_answers,
    wants_mlflow,
)

TENSORBOARD = "tensorboard"
_DIVERGED = "diverged"
"""A tag: how many attempts of the trial came before whose loss was not finite."""
_MLFLOW_STATUS = {"failed": "FAILED", "stopped": "KILLED"}


class TrialTracker(Protocol):
    """A place where trials are followed, written by the driver."""

    def start(self, trial: Trial) -> None:
        """A trial starts, or is resumed; it may have reports from before."""
        ...

    def update(self, trial: Trial) -> None:
        """A trial has another report."""
        ...

    def end(self, trial: Trial) -> None:
        """A trial is over, or paused."""
        ...


def trackers_of(plan: Plan) -> list[TrialTracker]:
    """TensorBoard, Ray's metrics, and MLflow where the sweep has a run there."""
    trackers: list[TrialTracker] = [HParams(plan), Gauges(plan)]
    if plan.mlflow_parent is not None:
        trackers.append(MlflowTrials(plan, plan.mlflow_parent))
    return trackers


class HParams:
    """`OUT/tensorboard/TRIAL`: the settings of each trial, and the curves of the objectives over epochs."""

    def __init__(self, plan: Plan) -> None:
        self._folder = plan.out / TENSORBOARD
        self._names = _metrics(plan)
        self._writers: dict[str, Any] = {}
        self._written: dict[str, int] = {}

    def start(self, trial: Trial) -> None:
        """Write the settings, and again what was reported before."""
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        self._close(trial)
        shutil.rmtree(self._folder / trial.name, ignore_errors=True)
        writer = self._writers[trial.name] = SummaryWriter(str(self._folder / trial.name))
        settings = {key: _plain(value) for key, value in trial.settings.items()}
        # The third one would say that the trial succeeded.
        for summary in hparams(settings, dict.fromkeys(map(_tag, self._names), 0.0))[:2]:
            assert writer.file_writer is not None
            writer.file_writer.add_summary(summary)
        self.update(trial)

    def update(self, trial: Trial) -> None:
        """Write the reports that are new."""
        if (writer := self._writers.get(trial.name)) is None:
            return
        for report in trial.reports[self._written.get(trial.name, 0) :]:
            for name in self._names:
                writer.add_scalar(_tag(name), report[name], math.ceil(report["epochs"]))
        self._written[trial.name] = len(trial.reports)
        writer.flush()

    def end(self, trial: Trial) -> None:
        """Write how the trial ended; a paused one is left open for its next start."""
        self.update(trial)
        if (writer := self._writers.get(trial.name)) is not None and trial.state != "paused":
            writer.file_writer.add_summary(_session_end(failed=trial.state == "failed"))
        self._close(trial)

    def _close(self, trial: Trial) -> None:
        if (writer := self._writers.pop(trial.name, None)) is not None:
            writer.close()
        self._written.pop(trial.name, None)


class MlflowTrials:
    """A run of MLflow for each trial, below that of the sweep.

    What Ray Tune's callbacks raise ends a sweep: a server that goes away costs what it would have been sent,
    until a later launch sends that, and no trial.
    """

    def __init__(self, plan: Plan, parent: str) -> None:
        from mlflow import MlflowClient

        self._plan, self._parent = plan, parent
        self._client = MlflowClient()
        self._names = _metrics(plan)
        self._written: dict[str, int] = {}
        self._while_it_answers = WhileItAnswers(f"the rest of this launch of {plan.out.name}")

    def start(self, trial: Trial) -> None:
        """Make the run with the settings as its parameters, or take it up again."""
        self._while_it_answers(lambda: self._start(trial))

    def update(self, trial: Trial) -> None:
        """Log the reports that are new."""
        self._while_it_answers(lambda: self._update(trial))

    def end(self, trial: Trial) -> None:
        """Say how the trial ended, also of its trainings, whose process may have been ended before them."""
        self._while_it_answers(lambda: self._end(trial))

    def _start(self, trial: Trial) -> None:
        known = self._folder(trial) / MLFLOW_RUN
        # What an attempt logged whose loss was not finite is no part of the curve of the next one.
        attempt = str(diverged_of(self._folder(trial)))
        before = self._client.get_run(known.read_text().strip()) if known.exists() else None
        if before is not None and before.data.tags.get(_DIVERGED, attempt) == attempt:
            # One that is over only reports again: it would seem to have lasted until now.
            if trial.state not in ("finished", *_MLFLOW_STATUS):
                self._client.update_run(before.info.run_id, status="RUNNING")
        else:
            if before is not None:
                self._client.set_terminated(before.info.run_id, "FAILED")
            experiment = self._client.get_run(self._parent).info.experiment_id
            tags = {"mlflow.parentRunId": self._parent, "trial": str(trial.number), _DIVERGED: attempt}
            run = self._client.create_run(experiment, run_name=trial.name, tags=tags)
            for key, value in trial.settings.items():
                self._client.log_param(run.info.run_id, key, str(value)[:500])
            known.write_text(run.info.run_id)
        # A killed driver may have left out the last reports of the trial.
        logged = self._client.get_metric_history(known.read_text().strip(), SECONDS)
        self._written[trial.name] = len(logged)

    def _update(self, trial: Trial) -> None:
        if (run := _run_id(self._folder(trial))) is None:
            return
        if self._plan.uri is not None:
            # On other machines, where they do not see it.
            for training in filter(None, (_run_id(self._folder(trial) / name) for name in self._plan.runs)):
                self._client.set_tag(training, "mlflow.parentRunId", run)
        now = int(1000 * time.time())
        for report in trial.reports[self._written.get(trial.name, 0) :]:
            for name in self._names:
                if report[name] == report[name]:
                    self._client.log_metric(run, name, report[name], now, math.ceil(report["epochs"]))
        self._written[trial.name] = len(trial.reports)

    def _end(self, trial: Trial) -> None:
        self._update(trial)
        status = _MLFLOW_STATUS.get(trial.state, "FINISHED")
        folder = self._folder(trial)
        if trial.state == "paused" or (run := _run_id(folder)) is None:
            return
        self._client.set_tag(run, "state", trial.state)
        for one in (run, *filter(None, (_run_id(folder / name) for name in self._plan.runs))):
            if self._client.get_run(one).info.status == "RUNNING":
                self._client.set_terminated(one, status)

    def _folder(self, trial: Trial) -> Path:
        return self._plan.out / TRIALS / trial.name


@contextlib.contextmanager
def mlflow_sweep(recipe: BaseRecipe, out: Path, parameters: Mapping[str, Any]) -> Iterator[str | None]:
    """The id of the sweep's run in MLflow, the same one when the sweep is resumed; None without MLflow.

    It is running until the block ends, and failed if that raises.

    Raises:
        RecipeError: the recipe asks for MLflow, which is not installed.
        StorageError: its server is not there.
    """
    if not wants_mlflow(recipe):
        yield None
        return
    import mlflow

    client, known = mlflow.MlflowClient(), out / MLFLOW_RUN
    with mlflow_answers():
        if (run := _run_id(out)) is not None:
            client.update_run(run, status="RUNNING")
        else:
            experiment = mlflow.set_experiment(recipe.tracking.experiment).experiment_id
            run = client.create_run(experiment, run_name=out.resolve().name).info.run_id
            for key, value in parameters.items():
                client.log_param(run, key, str(value)[:500])
            known.write_text(run)
    while_it_answers = WhileItAnswers(f"the end of the sweep {out.name}")
    try:
        yield run
    except BaseException:
        while_it_answers(lambda: client.set_terminated(run, "FAILED"))
        raise
    while_it_answers(lambda: client.set_terminated(run))


def log_result(run: str | None, metrics: Mapping[str, float], files: Sequence[Path]) -> None:
    """Add the best trial's scores and the sweep's files to the sweep's run, if there is one."""
    if run is None:
        return
    from mlflow import MlflowClient

    def send() -> None:
        client = MlflowClient()
        for name, value in metrics.items():
            client.log_metric(run, name, value)
        for file in files:
            client.log_artifact(run, str(file))

    WhileItAnswers("the result of the sweep")(send)


def link_to_trial(plan: Plan, run: Path) -> None:
    """Let the training in a folder be a child of its trial's run in MLflow, if there is one."""
    link_to_parent(_run_id(run.parent) or plan.mlflow_parent, run)


def link_to_parent(parent: str | None, run: Path) -> None:
    """Let the training in a folder be a child of a run in MLflow, if there is one."""
    if parent is not None:
        run.mkdir(parents=True, exist_ok=True)
        (run / MLFLOW_PARENT).write_text(parent)


def _run_id(folder: Path) -> str | None:
    known = folder / MLFLOW_RUN
    return known.read_text().strip() if known.exists() else None


def _session_end(failed: bool) -> Any:
    """The summary that ends a session of HParams; torch has that of a success alone."""
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    proto: Any = summary_pb2
    messages: Any = plugin_data_pb2
    states: Any = api_pb2
    status = states.Status.Value("STATUS_FAILURE" if failed else "STATUS_SUCCESS")
    data = messages.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION)
    data.session_end_info.status, data.session_end_info.end_time_secs = status, time.time()
    plugin = proto.SummaryMetadata.PluginData(
        plugin_name=metadata.PLUGIN_NAME, content=data.SerializeToString()
    )
    value = proto.Summary.Value(
        tag=metadata.SESSION_END_INFO_TAG, metadata=proto.SummaryMetadata(plugin_data=plugin)
    )
    return proto.Summary(value=[value])


def _metrics(plan: Plan) -> list[str]:
    return list(dict.fromkeys((*(o.metric for o in plan.settings.objectives), SECONDS)))


def _tag(name: str) -> str:
    return f"sweep/{name}"


def _plain(value: Any) -> bool | int | float | str:
    return value if isinstance(value, (bool, int, float, str)) else str(value)
