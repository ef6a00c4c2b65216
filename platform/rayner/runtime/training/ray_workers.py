"""The loop of a run on Ray Train workers."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rayner.config import ScalingSettings
from rayner.data.example_sets import ExampleSet
from rayner.errors import InputError, RaynerError, RecipeError
from rayner.files.publishing import Publication
from rayner.runtime.actors import needs_of_worker
from rayner.runtime.cluster import ensure_ray, has_state_api, secrets, this_node
from rayner.runtime.run_folder import STORAGE_VARIABLE
from rayner.runtime.tracking import Record, scalars
from rayner.runtime.training.controller_callbacks import controller_callbacks, lasts
from rayner.runtime.training.distributed import (
    on_first,
    rank,
    same_workers,
    sum_over_workers,
    world_size,
)
from rayner.runtime.training.example_building import CACHE_VARIABLE, read_all
from rayner.runtime.training.failures import GroupLostError
from rayner.runtime.training.loop import Run, work
from rayner.runtime.training.run_state import RAY_SNAPSHOT, TrainState, key_of_data
from rayner.runtime.training.train_call import Launch
from rayner.runtime.training.train_controller import (
    counting,
    forget,
    give_up_room,
    note_room,
    noting,
    times_started,
)
from rayner.runtime.training.training_progress import Lines, watched
from rayner.tasks.base import Unit
from rayner.tasks.checkpoint_files import RECIPE
from rayner.tasks.encoder_task import EncoderTask

TRAINING = "rayner_training"
"""The name of a run's gauge."""
SECONDS_TO_FETCH = 600
"""How long a worker waits for what the driver gives it: Ray tells of lost objects, not of a slow network."""


def work_on_cluster(
    launch: Launch, examples: ExampleSet, dev: Sequence[Unit], calibration: Sequence[Unit] = ()
) -> TrainState:
    """`loop.work` on Ray Train workers, which start again from `OUT/last` when one of them dies.

    Ray Train knows the run by the name of its folder, and is told its metrics and that `OUT/last` is its
    checkpoint; it stores none, and what resumption goes by is what lies there.

    Raises:
        RaynerError: what the workers raised, and that they died more often than `scaling.max_failures`.
    """
    from ray.train import FailureConfig, LoggingConfig, RunConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
    from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
    from ray.train.v2.api.exceptions import TrainingFailedError

    class Trainer(TorchTrainer):
        """Without actors that each run would start, a second of CPU each, and that have nothing to do in it:
        one for data sets of Ray Data, and one that asks Ray's State API whether the controller lives."""

        def _create_default_callbacks(self) -> list[Any]:
            idle = (DatasetsCallback, *(() if has_state_api() else (PlacementGroupCleanerCallback,)))
            return [one for one in super()._create_default_callbacks() if not isinstance(one, idle)]

    out, publication, workers = launch.out, launch.publication, launch.workers
    if publication is not None:
        # The workers begin with what is there.
        publication.push()
    ensure_ray()
    scaling = launch.recipe.scaling
    # Ray Train would go on from what it noted of an earlier launch; what this run goes on from is `last`.
    (out / RAY_SNAPSHOT).unlink(missing_ok=True)
    give_up_room(out)
    os.environ.setdefault("RAY_TRAIN_ENABLE_STATE_TRACKING", "1")
    # Of any kind, though only those of users are declared.
    callbacks = [*controller_callbacks(needs_of_worker(scaling), workers), noting(out)]
    if publication is not None:
        callbacks.append(counting())
    trainer = Trainer(
        _work_on_ray,
        train_loop_config=_given(launch, examples, dev, calibration),
        scaling_config=_scaling_config(scaling, workers),
        run_config=RunConfig(
            name=out.name,
            storage_path=str(out.parent),
            failure_config=FailureConfig(
                max_failures=scaling.max_failures,
                max_preemption_failures=scaling.max_preemption_failures,
            ),
            callbacks=callbacks,
            logging_config=LoggingConfig(log_level="WARNING"),
        ),
        torch_config=TorchConfig(
            backend="nccl" if scaling.gpus_per_worker else "gloo",
            timeout_s=scaling.collective_timeout_seconds,
        ),
    )
    with watched(out, launch.watch), _interrupted_as_usual():
        try:
            outcome = trainer.fit().return_value
        except TrainingFailedError as error:
            lasting = getattr(error, "controller_failure", None)
            if isinstance(lasting, RaynerError):
                raise lasting from error
            raise RaynerError(f"the workers failed; {_first_cause(error)}") from error
    if publication is not None:
        # The first worker has written there since, perhaps on another machine.
        publication.open()
    forget(out)
    if isinstance(outcome, RaynerError):
        raise outcome
    assert isinstance(outcome, TrainState)
    return outcome


def _given(
    launch: Launch, examples: ExampleSet, dev: Sequence[Unit], calibration: Sequence[Unit]
) -> dict[str, Any]:
    """What each worker is given."""
    import ray

    out, publication = launch.out, launch.publication
    return {
        # Opened within the run: a failure there is one of a worker, and retried.
        "examples": str(examples.folder),
        # With the files that it has read: the workers have another working directory.
        "task": ray.put(launch.task.for_workers(dev)),
        "dev": ray.put(dev),
        "calibration": ray.put(calibration),
        "out": str(out),
        "node": this_node(),
        "publication": publication and (publication.uri, publication.owner, publication.attempt),
        "below": publication and str(out.relative_to(publication.folder.resolve())),
        "until": launch.until,
        # Ray shows what it is given here by value.
        "secrets": ray.put(secrets()),
    }


def _scaling_config(scaling: ScalingSettings, workers: int) -> Any:
    """How many workers there are, and what each of them asks Ray for."""
    from ray.train import ScalingConfig

    most = scaling.max_workers
    resources = {"CPU": scaling.cpus_per_worker}
    if scaling.gpus_per_worker:
        resources["GPU"] = scaling.gpus_per_worker
    if scaling.memory_per_worker:
        resources["memory"] = scaling.memory_per_worker * 2**30
    return ScalingConfig(
        num_workers=workers if most is None or most <= workers else (workers, most),
        use_gpu=scaling.gpus_per_worker > 0,
        resources_per_worker=resources,
        accelerator_type=scaling.accelerator_type,
        elastic_resize_monitor_interval_s=scaling.resize_seconds,
    )


@contextmanager
def _interrupted_as_usual() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt: Ray Train would end the process, and keeps the signal ever after."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        raise KeyboardInterrupt from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _work_on_ray(config: Mapping[str, Any]) -> TrainState | RaynerError:
    import ray

    # It tells each report, by a logger with the name of its file, which no setting of Ray Train reaches.
    teller = Path(ray.__file__).parent / "train/v2/_internal/execution/context.py"
    logging.getLogger(str(teller)).setLevel(logging.WARNING)
    workers = None
    try:
        with same_workers() as workers:
            os.environ.update(ray.get(config["secrets"], timeout=SECONDS_TO_FETCH))
            return work(_run_of(config))
    except RaynerError as error:
        # Where all workers end with it, Ray needs not see a failure, which it would log at length.
        if workers is not None and workers.ended_together and lasts(error):
            return error
        raise


def _run_of(config: Mapping[str, Any]) -> Run:
    import ray
    from ray.train.torch import get_device

    out, device = Path(config["out"]), get_device()
    publication = _publication_of(config)
    if publication is not None:
        out = publication.folder / config["below"]
        note_room(out)
    _check_storage(out, device)
    examples = _examples_in(Path(config["examples"]))
    task: EncoderTask[Any] = ray.get(config["task"], timeout=SECONDS_TO_FETCH)
    dev, calibration = (ray.get(config[name], timeout=SECONDS_TO_FETCH) for name in ("dev", "calibration"))
    return Run(
        task=task,
        examples=examples,
        key=key_of_data(examples.manifest["content"], dev, calibration),
        dev=read_all(task, dev),
        out=out,
        device=device,
        watchers=[Gauges(out.name)] if _driver_sees(config, out) else [Gauges(out.name), Lines()],
        until=config["until"],
        report=partial(_report, Path(config["out"])),
        publication=publication,
        calibration=read_all(task, calibration),
    )


def _driver_sees(config: Mapping[str, Any], out: Path) -> bool:
    """Whether the driver can read the log of the run as this worker writes it to `out`."""
    if config["publication"] is None or config["below"] != ".":
        # Of a trial that is put in place nobody shows the steps.
        return True
    return config["node"] == this_node() and out.resolve() == Path(config["out"])


def _report(out: Path, numbers: Mapping[str, float], checkpoint: Path) -> None:
    """Tell Ray Train, on all workers at once, how far the run is; nothing is copied.

    Args:
        out: the run's folder on the driver's machine: Ray takes no checkpoint outside of it, by its name.
    """
    from ray.train import Checkpoint, CheckpointUploadMode, report

    place = Checkpoint.from_directory(out / checkpoint.name)
    report(dict(numbers), checkpoint=place, checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD)


class Gauges:
    """The numbers of a run as metrics of Ray's, for its dashboard and Prometheus."""

    def __init__(self, run: str) -> None:
        from ray.util.metrics import Gauge

        self._run = run
        self._gauge = Gauge(TRAINING, "The latest value of a run's metric.", ("run", "metric"))

    def write(self, record: Record) -> None:
        """Set each metric of the record, but no counts: on an axis of scores they would flatten these."""
        if metrics := record.get("metrics"):
            record = {"metrics": {name: n for name, n in metrics.items() if isinstance(n, float)}}
        for name, value in scalars(record).items():
            self._gauge.set(value, {"run": self._run, "metric": name})

    def close(self) -> None:
        """Ray forgets a gauge with its process."""


def _publication_of(config: Mapping[str, Any]) -> Publication | None:
    """Where the run is put in place; the first worker writes there from now on, and none before it, so that
    the others fetch what it goes on from."""
    if config["publication"] is None:
        return None
    uri, owner, attempt = config["publication"]
    publication = Publication(uri, owner, attempt + times_started())
    on_first(publication.open)
    if rank() > 0:
        publication.fetch()
    return publication


def _examples_in(folder: Path) -> ExampleSet:
    try:
        return ExampleSet(folder)
    except InputError as error:
        hint = f"let {CACHE_VARIABLE} name a folder that all nodes see, or a URI"
        raise InputError(error.where, f"{error.what} that a worker sees", hint) from error


def _check_storage(out: Path, device: torch.device) -> None:
    missing = sum_over_workers(torch.tensor(float(not (out / RECIPE).is_file()), device=device))
    if missing:
        what = f"cannot be seen by {int(missing)} of {world_size()} workers"
        hint = f"name a folder that all nodes see, with --out or {STORAGE_VARIABLE}"
        raise RecipeError(str(out), what, hint)


def _first_cause(error: Exception) -> str:
    failures = getattr(error, "worker_failures", {})
    causes = [getattr(failure, "_base_exc", failure) for failure in failures.values()] or [error]
    # Those that lost another worker know less than who saw it die.
    causes.sort(key=lambda cause: isinstance(cause, GroupLostError))
    return (str(causes[0]).strip().splitlines() or [type(causes[0]).__name__])[-1]
