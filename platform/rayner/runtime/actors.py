"""Work in parts on actors that load once what all parts need."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from rayner.config import ScalingSettings
from rayner.errors import RaynerError
from rayner.runtime.cluster import ensure_ray
from rayner.runtime.elsewhere import Needs, cluster_room, wait_for_room

log = logging.getLogger(__name__)

Part = TypeVar("Part")
Result = TypeVar("Result")

RESTARTS = 3
"""How often an actor is started again, and a part begun again, where a process or node is lost."""
SECONDS_TO_START = 10.0
"""How long the work waits for all actors, before it begins with those that have started."""
_AHEAD = 2
"""Parts that an actor has: one in work, one that waits."""


def each_on_actors(
    load: Callable[[], Callable[[Part], Result]], parts: Iterable[Part], workers: int, needs: Needs
) -> Iterator[Result]:
    """The result of every part, in the order of the parts.

    Where the cluster has room for some of the actors only, these do the work, and others join when they
    start: whether a cluster grows cannot be known, and no part may wait for an actor that never comes.

    Args:
        load: called once on each actor; what it returns does the work. Both, and the results, must pickle.
        workers: the number of actors, each with `needs`.

    Raises:
        RaynerError: as the work raised it.
        InputError: no node has had room for one actor for `RAYNER_WAIT_SECONDS`.
    """
    import ray

    ensure_ray()
    options: dict[str, Any] = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS, **needs.options()}
    actor = ray.remote(**options)(_Worker)
    actors: list[Any] = [actor.remote(load) for _ in range(workers)]
    running: deque[tuple[Any, Any]] = deque()
    waiting = iter(parts)
    # Actors by when they have room; results come in order, so that no more than a few are kept.
    free: deque[Any] = deque()
    starting = {one.started.remote(): one for one in actors}
    try:
        ray.wait([*starting], num_returns=len(starting), timeout=SECONDS_TO_START)
        wait_for_room([*starting], needs)
        _join(starting, free)
        if starting:
            what = "%d of %d workers have started and begin; the others join when there is room; %s. %s"
            hint = "Ask for fewer with --workers, or add nodes."
            log.warning(what, workers - len(starting), workers, cluster_room(), hint)
        while True:
            _join(starting, free)
            while free and (part := next(waiting, _NONE)) is not _NONE:
                one = free.popleft()
                running.append((one, one.work.remote(part)))
            if not running:
                return
            one, answer = running.popleft()
            result: Any = ray.get(answer)
            free.append(one)
            if isinstance(result, RaynerError):
                raise result
            yield result
    finally:
        for one in actors:
            ray.kill(one)


def _join(starting: dict[Any, Any], free: deque[Any]) -> None:
    """Move the actors that have started to those that have room."""
    import ray

    if not starting:
        return
    found, _ = ray.wait([*starting], num_returns=len(starting), timeout=0)
    free.extend([starting[one] for one in found] * _AHEAD)
    for one in found:
        del starting[one]


def needs_of_worker(scaling: ScalingSettings) -> Needs:
    """What one worker of a recipe asks for."""
    memory = scaling.memory_per_worker
    return Needs(
        cpus=scaling.cpus_per_worker,
        gpus=scaling.gpus_per_worker,
        memory=None if memory is None else int(memory * 2**30),
        accelerator_type=scaling.accelerator_type,
    )


_NONE: Any = object()


class _Worker:
    """Loads at its first part, where an error of its input can be told."""

    def __init__(self, load: Callable[[], Callable[[Any], Any]]) -> None:
        self._load = load
        self._work: Callable[[Any], Any] | None = None

    def started(self) -> None:
        """Answers once there is a node and a process."""

    def work(self, part: Any) -> Any:
        try:
            if self._work is None:
                self._work = self._load()
            return self._work(part)
        except RaynerError as error:
            # As a value: raised, it would come back as an error of Ray's.
            return error
