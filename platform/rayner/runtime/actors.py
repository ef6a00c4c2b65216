"""Work in parts on actors that load once what all parts need."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rayner.errors import RaynerError, first_line
from rayner.runtime.cluster import ensure_ray, gpus_of_each
from rayner.runtime.elsewhere import Needs, cluster_room, wait_for_room
from rayner.runtime.faults import lost_errors

if TYPE_CHECKING:
    from rayner.config import ScalingSettings

log = logging.getLogger(__name__)

Part = TypeVar("Part")
Result = TypeVar("Result")

LOSSES = 3
"""How often a part is begun again whose process or node was lost."""
SECONDS_TO_START = 10.0
"""How long the work waits for all actors, before it begins with those that have started."""
_SECONDS_TO_FAIL = 0.5
"""Within which a call of an actor that is lost fails, while one of an actor that works waits."""
_AHEAD = 2
"""Parts that an actor has: one in work, one that waits."""


@dataclass(slots=True)
class _Given:
    """A part, the actor that has it, and the reference to its result."""

    part: Any
    actor: Any
    answer: Any
    losses: int = 0


class _Pool:
    """Actors that have started, those that have not, and replacements of those that are lost.

    Ray would start a lost actor again, too, but the parts that it had would wait for that, without a bound,
    and other actors could not take them.
    """

    def __init__(
        self,
        load: Callable[[], Callable[[Any], Any]],
        workers: int,
        needs: Needs,
        others: Mapping[str, Any],
    ) -> None:
        import ray

        self._load, self._needs, self.workers = load, needs, workers
        options = {**needs.options(), **others}
        self._actor = ray.remote(**options)(_Worker) if options else ray.remote(_Worker)
        self.starting: dict[Any, Any] = {}
        self.started: list[Any] = []
        for _ in range(workers):
            self._start_one()

    def _start_one(self) -> None:
        one = self._actor.remote(self._load)
        self.starting[one.started.remote()] = one

    def wait(self) -> None:
        """Wait a moment for all, and then for the first.

        Raises:
            InputError: no node has had room for one for `RAYNER_WAIT_SECONDS`.
        """
        import ray

        ray.wait([*self.starting], num_returns=len(self.starting), timeout=SECONDS_TO_START)
        wait_for_room([*self.starting], self._needs)

    def joined(self) -> list[Any]:
        """The actors that have started since the last call."""
        import ray

        if not self.starting:
            return []
        found, _ = ray.wait([*self.starting], num_returns=len(self.starting), timeout=0)
        new = [self.starting.pop(one) for one in found]
        self.started += new
        return new

    def replace(self, lost: Any) -> list[Any]:
        """Start others in place of a lost actor and of those that are lost with it; all of these."""
        import ray

        # A call of an actor that works stays without an answer, one of a lost actor fails at once.
        asked = {one.started.remote(): one for one in self.started if one is not lost}
        answered: list[Any] = []
        if asked:
            answered, _ = ray.wait([*asked], num_returns=len(asked), timeout=_SECONDS_TO_FAIL)
        gone = [lost]
        for call in answered:
            try:
                ray.get(call)
            except lost_errors():
                gone.append(asked[call])
        for one in gone:
            ray.kill(one)
            self.started.remove(one)
            self._start_one()
        log.warning(
            "%d of %d workers are lost with their process or node: others start", len(gone), self.workers
        )
        return gone

    def end(self) -> None:
        """End all of them."""
        import ray

        for one in (*self.started, *self.starting.values()):
            ray.kill(one)


def each_on_actors(
    load: Callable[[], Callable[[Part], Result]],
    parts: Iterable[Part],
    workers: int,
    needs: Needs,
    held: Iterable[Path] = (),
    device: str | None = None,
) -> Iterator[Result]:
    """The result of every part, in the order of the parts.

    Where the cluster has room for some of the actors only, these do the work, and others join when they
    start: whether a cluster grows cannot be known, and no part may wait for an actor that never comes. What
    a lost actor had goes to the others.

    Args:
        load: called once on each actor; what it returns does the work. Both, and the results, must pickle.
        workers: the number of actors, each with `needs`.
        held: the checkpoints and indexes that each holds, by which its memory is estimated.
        device: where `load` puts a model, as of `gpus_of_each`, by which the actors share GPUs where `needs`
            name none.

    Raises:
        RaynerError: as the work raised it; or a part was begun `LOSSES` times again, and its process or node
            was lost each time.
        InputError: no node has had room for one actor for `RAYNER_WAIT_SECONDS`.
    """
    import ray

    ensure_ray()
    hidden: Mapping[str, Any] = {}
    if not needs.gpus:
        gpus, hidden = gpus_of_each(workers, device)
        needs = replace(needs, gpus=gpus)
    if needs.memory is None and (held := [*held]):
        # Not above: each actor imports this module before its work, and this one brings torch and all tasks.
        from rayner.runtime.model_memory import memory_of, placed_by_memory

        needs = placed_by_memory(needs, memory_of(held))
    pool = _Pool(load, workers, needs, hidden)
    running: deque[_Given] = deque()
    waiting = iter(parts)
    # Actors by when they have room; results come in order, so that no more than a few are kept.
    free: deque[Any] = deque()
    try:
        pool.wait()
        free.extend(pool.joined() * _AHEAD)
        if pool.starting:
            # What is on its way has its room already, and takes long on a busy machine.
            what = "%d of %d workers have started and begin; the others join when they have; %s. %s"
            hint = "Ask for fewer with --workers, or add nodes, if they never do."
            log.warning(what, len(pool.started), workers, cluster_room(), hint)
        while True:
            free.extend(pool.joined() * _AHEAD)
            while free and (part := next(waiting, _NONE)) is not _NONE:
                one = free.popleft()
                running.append(_Given(part, one, one.work.remote(part)))
            if not running:
                return
            first = running[0]
            try:
                result: Any = ray.get(first.answer)
            except lost_errors() as error:
                gone = pool.replace(first.actor)
                free = deque(one for one in free if one not in gone)
                _give_again(running, gone, pool, error)
                continue
            running.popleft()
            # One that has parts of a lost actor gets no more until they are done.
            if sum(given.actor is first.actor for given in running) + free.count(first.actor) < _AHEAD:
                free.append(first.actor)
            if isinstance(result, RaynerError):
                raise result
            yield result
    finally:
        pool.end()


def _give_again(running: Iterable[_Given], gone: Sequence[Any], pool: _Pool, error: Exception) -> None:
    """Give what lost actors had to others; of each, the first part was in work and counts a loss."""
    if not pool.started:
        pool.wait()
        pool.joined()
    others, in_work = cycle(pool.started), list(gone)
    for given in running:
        if given.actor not in gone:
            continue
        if given.actor in in_work:
            in_work.remove(given.actor)
            given.losses += 1
            if given.losses > LOSSES:
                lost = f"the work lost its node or process {given.losses} times"
                raise RaynerError(f"{lost}, as when memory runs out: {first_line(error)}")
        given.actor = next(others)
        given.answer = given.actor.work.remote(given.part)


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
