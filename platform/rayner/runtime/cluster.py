"""The Ray cluster that this process works on."""

from __future__ import annotations

import logging
import os
from pathlib import Path

SOURCE_ROOT = Path(__file__).parents[2]
_CLEANER = "ray.train.v2._internal.execution.controller.placement_group_cleaner"
_TRAINABLE = "ray.tune.trainable.trainable"


def ensure_ray() -> None:
    """Join the cluster that RAY_ADDRESS names (a job's own, within a job), else start one on this machine.

    Does nothing where this process has a cluster already.
    """
    import ray

    if ray.is_initialized():
        return
    if address := os.environ.get("RAY_ADDRESS"):
        # The nodes have the package from the job's runtime environment or their own installation.
        ray.init(address=address, logging_level=logging.WARNING)
        return
    path = os.pathsep.join(filter(None, (str(SOURCE_ROOT), os.environ.get("PYTHONPATH"))))
    ray.init(
        address="local",
        include_dashboard=False,
        logging_level=logging.WARNING,
        runtime_env={
            "env_vars": {"PYTHONPATH": path},
            "worker_process_setup_hook": f"{__name__}.quieten",
        },
    )


def this_node() -> str:
    """The id of the node that this worker is on."""
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
