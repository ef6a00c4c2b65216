"""The work of a command on a node that has room for it, while the head of the cluster only waits."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rayner.errors import InputError, RaynerError, first_line
from rayner.runtime.cluster import ensure_ray, secrets
from rayner.runtime.faults import lost_errors

WAIT_VARIABLE = "RAYNER_WAIT_SECONDS"
SECONDS_TO_WAIT = 1800
"""For a node with room, unless RAYNER_WAIT_SECONDS says otherwise: a cluster that grows takes minutes."""
SECONDS_BETWEEN_LINES = 30
SECONDS_BETWEEN_LOOKS = 10.0
"""How often it is looked, while no result comes, whether the cluster still has room for the work."""
ATTEMPTS = 4
"""How often the work is begun, if its node or process is lost each time."""

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Needs:
    """What work asks of a node; `memory` in bytes. `cpus` None: one to be placed, and none while it works."""

    cpus: float | None = None
    gpus: float = 0
    memory: int | None = None
    accelerator_type: str | None = None

    def options(self) -> dict[str, Any]:
        """As Ray takes them."""
        named = {
            "num_cpus": self.cpus,
            "num_gpus": self.gpus or None,
            "memory": self.memory,
            "accelerator_type": self.accelerator_type,
        }
        return {name: value for name, value in named.items() if value is not None}

    def in_words(self, times: int = 1) -> tuple[str, str]:
        """What is wanted by who needs it so often at once, and what has not come, for `waiting`."""
        options = self.options() or {"num_cpus": 1}
        if self.memory is not None:
            options["memory"] = f"{self.memory / 2**30:.1f} GiB"
        shown = ", ".join(f"{name.removeprefix('num_')} {value}" for name, value in options.items())
        if times > 1:
            return f"room for {times} x {shown}", f"there has been no room for {times} x {shown}"
        return f"a node with room for {shown}", f"no node has had room for {shown}"


def on_head() -> bool:
    """Whether this process is on the head of its cluster; joins the cluster that RAY_ADDRESS names."""
    import ray

    ensure_ray()
    here = ray.get_runtime_context().get_node_id()
    heads = [node for node in ray.nodes() if "node:__internal_head__" in node["Resources"]]
    return any(node["NodeID"] == here for node in heads)


def work_elsewhere(begin: Callable[[int], T], needs: Needs, environment: Mapping[str, str]) -> T:
    """What `begin(attempt)` returns on a node with room for it, in this working folder where the node has it.

    It is begun again where its node or process is lost.

    Args:
        environment: variables of its process, and of what it starts, on any node; Ray shows them. Those
            that may hold a password it has besides.

    Raises:
        InputError: no node has had room for `RAYNER_WAIT_SECONDS`.
        RaynerError: it was lost `ATTEMPTS` times.
    """
    import ray

    ensure_ray()
    actor = ray.remote(**needs.options())(_Worker) if needs.options() else ray.remote(_Worker)
    runtime_env = {"env_vars": dict(environment)}
    for attempt in range(1, ATTEMPTS + 1):
        worker = actor.options(runtime_env=runtime_env).remote(os.getcwd(), secrets())
        try:
            node = worker.node.remote()
            wait_for_room([node], needs)
            log.info("works on node %s", ray.get(node))
            return ray.get(worker.call.remote(begin, attempt))
        except lost_errors() as error:
            why = first_line(error)
            log.warning("attempt %d of %d lost its node or process: %s", attempt, ATTEMPTS, why)
        finally:
            ray.kill(worker)  # pyright: ignore[reportArgumentType]
    raise RaynerError(f"the work lost its node or process {ATTEMPTS} times, as when memory runs out")


class _Worker:
    """The process that works."""

    def __init__(self, folder: str, given: Mapping[str, str]) -> None:
        os.environ.update(given)
        if Path(folder).is_dir():
            os.chdir(folder)

    def node(self) -> str:
        import ray

        return ray.util.get_node_ip_address()

    def call(self, begin: Callable[[int], T], attempt: int) -> T:
        return begin(attempt)


def empty_task() -> None:
    """Answers once there is room for it; its worker imports this module alone."""


def wait_for_room(started: Sequence[Any], needs: Needs, times: int = 1) -> None:
    """Wait until the first of several is there that each need this, and say now and then what is missing.

    Args:
        started: what each answers when it has started, as references of Ray's.
        times: how often each needs it, at once.

    Raises:
        InputError: there has been no room for any of them for `RAYNER_WAIT_SECONDS`.
    """
    import ray

    for pause in waiting(*needs.in_words(times)):
        if ray.wait([*started], timeout=pause)[0]:
            return


def waiting(wanted: str, missing: str) -> Iterator[float]:
    """Seconds to wait each time, until whoever waits has what is wanted; now and then the log says for what.

    Args:
        missing: what has not come, in the words of the error.

    Raises:
        InputError: it has not come for `RAYNER_WAIT_SECONDS`.
    """
    begin = told = time.monotonic()
    bound = seconds_to_wait()
    while True:
        yield min(1.0, bound)
        now = time.monotonic()
        if now - begin >= bound:
            raise waited_too_long(missing, bound)
        if now - told >= SECONDS_BETWEEN_LINES:
            told = now
            log.info("waiting for %s; %s", wanted, cluster_room())


def seconds_to_wait() -> float:
    """The bound of a wait for room: `RAYNER_WAIT_SECONDS` of this process.

    Raises:
        InputError: that is no number of seconds.
    """
    given = os.environ.get(WAIT_VARIABLE) or str(SECONDS_TO_WAIT)
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"{WAIT_VARIABLE}={given}", "is no number of seconds", "name one, such as 1800")
    return seconds


def waited_too_long(missing: str, seconds: float) -> InputError:
    """The error of a wait for room that has reached its bound: what has not come, and what is free."""
    hint = f"ask for less (`scaling`, or --workers, --cpus, --gpus), add nodes, or set {WAIT_VARIABLE}"
    return InputError("the cluster", f"{missing} for {seconds:g} s; {cluster_room()}", hint)


def cluster_room() -> str:
    """What is free in the cluster, of how much, in words."""
    import ray

    free, there = ray.available_resources(), ray.cluster_resources()
    units = {"CPU": 1, "GPU": 1, "memory": 2**30}
    names = ["CPU", *(name for name in ("GPU", "memory") if name in there)]
    return "free are " + ", ".join(
        f"{free.get(name, 0) / units[name]:.4g} of {there.get(name, 0) / units[name]:.4g} "
        + ("GiB of memory" if name == "memory" else name)
        for name in names
    )
