"""The Ray cluster that this process works on."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from rayner.errors import RaynerError
from rayner.runtime.ray_address import cannot_join, error_of, fault_of
from rayner.runtime.signals import terminated_as_interrupted

SOURCE_ROOT = Path(__file__).parents[2]
_CLEANER = "ray.train.v2._internal.execution.controller.placement_group_cleaner"
_TRAINABLE = "ray.tune.trainable.trainable"
_TOKENS = "ray._private.authentication.authentication_token_setup"
_ON_ONE_MACHINE = {
    # One process less: nobody takes this machine away and says so before.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    # Else a run that is over is noticed up to 2 s later.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    # The dashboard's list of runs is of no use without a dashboard.
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "0",
    # One process less: what counts the parts of Ray Data that are used.
    "RAY_DATA_USAGE_DISABLED": "1",
}
_MAY_HOLD_SECRETS = ("MLFLOW_TRACKING_URI",)
_NO_GPUS = {"runtime_env": {"env_vars": {"CUDA_VISIBLE_DEVICES": ""}}}

log = logging.getLogger(__name__)


def ensure_ray() -> None:
    """Join the cluster that RAY_ADDRESS names (a job's own, within a job), else start one on this machine.

    Does nothing where this process has a cluster already.

    Raises:
        InputError: RAY_ADDRESS names no cluster that can be joined.
        RaynerError: this machine has too much else to do.
    """
    import ray
    from ray._private.ray_constants import WORKER_PROCESS_SETUP_HOOK_ENV_VAR

    if ray.is_initialized():
        return
    if address := os.environ.get("RAY_ADDRESS"):
        if (fault := fault_of(address)) and fault.passing:
            # Ray waits for more than a minute before it says so.
            log.warning("%s", error_of(address, fault))
        # The nodes have the package from the job's runtime environment or their own installation.
        try:
            ray.init(address=address, logging_level=logging.WARNING)
        except (ValueError, ConnectionError, RuntimeError) as error:
            raise cannot_join(address, error) from error
        terminated_as_interrupted(over_others=True)
        return
    logging.getLogger(_TOKENS).addFilter(_asks_for_something)
    for name, value in _ON_ONE_MACHINE.items():
        os.environ.setdefault(name, value)
    path = os.pathsep.join(filter(None, (str(SOURCE_ROOT), os.environ.get("PYTHONPATH"))))
    # In the environment rather than in a runtime environment, which the workers that Ray starts ahead lack:
    # each actor would wait for a process of its own.
    with environment({"PYTHONPATH": path, WORKER_PROCESS_SETUP_HOOK_ENV_VAR: f"{__name__}.quieten"}):
        try:
            ray.init(address="local", include_dashboard=False, logging_level=logging.WARNING)
        except Exception as error:
            # Of no class of its own: Ray gives its processes 30 s.
            if "timed out during startup" not in str(error):
                raise
            hint = "try again when this machine has less to do"
            raise RaynerError(f"Ray did not start on this machine within 30 s; {hint}") from error
    # Handlers of Ray, which it has put in place by now, print frames of C++ and may abort the process.
    terminated_as_interrupted(over_others=True)


def leave_ray() -> None:
    """Leave the cluster, of which nothing is printed afterwards; one that this process started ends."""
    import ray

    # As long as Ray waits where a process ends: prints of workers come a moment later.
    time.sleep(0.5)
    ray.shutdown()


def _asks_for_something(record: logging.LogRecord) -> bool:
    """Not so what Ray says where it asks for a token, as it does by default, and has made one."""
    return not record.getMessage().startswith("Token authentication is enabled")


@contextlib.contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process's environment, and put them back at the end."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def secrets() -> dict[str, str]:
    """Variables of this process that its workers need, too, and that may hold a password.

    They go there as arguments: Ray logs runtime environments on each node, and shows them in its dashboard.
    """
    return {name: os.environ[name] for name in _MAY_HOLD_SECRETS if name in os.environ}


def is_one_machine() -> bool:
    """Whether the cluster is of one machine and for this process alone, so that it never grows."""
    import ray

    return "RAY_ADDRESS" not in os.environ and sum(node["Alive"] for node in ray.nodes()) == 1


def share_of(resource: Literal["CPU", "GPU"], workers: int) -> float:
    """What each of `workers` asks for, if the cluster has any: one, or less where they are more than it has.

    Less than one is for workers on one machine that all work at the same time.
    """
    import ray

    there = ray.cluster_resources().get(resource, 1.0)
    if workers <= max(there, 1):
        return 1.0
    resources = f"{there:g} {resource}{'' if there == 1 else 's'}"
    log.info("%d workers share the %s of this machine", workers, resources)
    return _share_of_gpus(int(there), workers) if resource == "GPU" else _in_rays_units(there / workers)


def gpus_of_each(workers: int, device: str | None = None) -> tuple[float, Mapping[str, Any]]:
    """GPUs for each of `workers` that ask a model, and options of Ray's that hide those of others.

    Ray leaves all GPUs visible to what asks for none, which would work on the first.

    Args:
        device: where the model is to be; by default on GPUs where some are free now, else on CPUs.
    """
    import ray

    if device not in (None, "cuda"):
        return 0.0, {}
    there = ray.cluster_resources().get("GPU", 0)
    gpus = int(there if device else ray.available_resources().get("GPU", 0))
    if gpus:
        return _share_of_gpus(gpus, workers), {}
    return 0.0, _NO_GPUS if there else {}


def _share_of_gpus(gpus: int, workers: int) -> float:
    # A part of a GPU is a part of one of them.
    return _in_rays_units(1 / math.ceil(workers / gpus))


def _in_rays_units(share: float) -> float:
    return math.floor(10_000 * share) / 10_000


def has_state_api() -> bool:
    """Whether Ray may tell of actors: False in the process that started a cluster without a dashboard."""
    from ray._private import worker

    node = worker._global_node
    return node is None or node._ray_params.include_dashboard is not False


@contextlib.contextmanager
def quiet_ray_data(block_bytes: int | None = None, *callbacks: type) -> Iterator[None]:
    """Within it Ray Data shows no progress, says nothing but errors, and waits as long as a block takes.

    Args:
        block_bytes: above which a block is divided; None leaves it as it is.
        callbacks: of what is executed.
    """
    import ray

    context = ray.data.DataContext.get_current()
    changes: dict[str, Any] = {
        "enable_progress_bars": False,
        # A block of a large model may take longer than its half an hour; nodes that went are looked for.
        "execution_no_progress_timeout_s": -1,
        "custom_execution_callback_classes": [*context.custom_execution_callback_classes, *callbacks],
    }
    if block_bytes is not None:
        changes["target_max_block_size"] = block_bytes
    before = {name: getattr(context, name) for name in changes}
    logger = logging.getLogger("ray.data")
    level = logger.level
    for name, value in changes.items():
        setattr(context, name, value)
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        logger.setLevel(level)


def this_node() -> str:
    """The id of the node that this process is on."""
    import ray

    return ray.get_runtime_context().get_node_id()


def node_lives(node: str) -> bool:
    """Whether the node of that id is in the cluster still."""
    import ray

    return any(known["Alive"] for known in ray.nodes() if known["NodeID"] == node)


def quieten() -> None:
    """In each worker: silence what Ray says of things that are as they should be.

    Ray Train's cleaner asks the dashboard and warns each second where there is none; Ray Tune tells of each
    checkpoint that a trial goes on from.
    """
    logging.getLogger(_CLEANER).setLevel(logging.ERROR)
    logging.getLogger(_TRAINABLE).setLevel(logging.WARNING)
