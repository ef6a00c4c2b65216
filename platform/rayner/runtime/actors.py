"""Work in parts on actors that load once what all parts need."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from rayner.config import ScalingSettings
from rayner.errors import RaynerError
from rayner.runtime.cluster import ensure_ray
from rayner.runtime.elsewhere import Needs

Part = TypeVar("Part")
Result = TypeVar("Result")

RESTARTS = 3
"""How often an actor is started again, and a part begun again, where a process or node is lost."""
_AHEAD = 2
"""Parts that an actor has: one in work, one that waits."""


def each_on_actors(
    load: Callable[[], Callable[[Part], Result]], parts: Iterable[Part], workers: int, needs: Needs
) -> Iterator[Result]:
    """The result of every part, in the order of the parts.

    Args:
        load: called once on each actor; what it returns does the work. Both, and the results, must pickle.
        workers: the number of actors, each with `needs`.

    Raises:
        RaynerError: as the work raised it.
    """
    import ray

    ensure_ray()
    options: dict[str, Any] = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS, **needs.options()}
    actor = ray.remote(**options)(_Worker)
    actors: list[Any] = [actor.remote(load) for _ in range(workers)]
    running: deque[tuple[Any, Any]] = deque()
    waiting = iter(parts)
    # Actors by when they have room; results come in order, so that no more than a few are kept.
    free = deque(one for _ in range(_AHEAD) for one in actors)
    try:
        while True:
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

    def work(self, part: Any) -> Any:
        try:
            if self._work is None:
                self._work = self._load()
            return self._work(part)
        except RaynerError as error:
            # As a value: raised, it would come back as an error of Ray's.
            return error
