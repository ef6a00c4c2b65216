"""Work in parts: the same work over many parts, in this process or as Ray tasks."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rayner.errors import RaynerError, first_line
from rayner.runtime.cluster import ensure_ray, gpus_of_each
from rayner.runtime.elsewhere import SECONDS_BETWEEN_LOOKS, Needs, empty_task, wait_for_room
from rayner.runtime.faults import lost_errors

Part = TypeVar("Part")
Result = TypeVar("Result")

_SHOWN = 300
_kept: dict[str, Callable[[Any], Any]] = {}
AHEAD = 16
"""Tasks that wait for a CPU, at least: what asks a cluster that can grow to do so."""


def parallel_map(
    work: Callable[[Part], Result],
    parts: Iterable[Part],
    workers: int | None = None,
    asks_model: bool = False,
) -> Iterator[Result]:
    """The result of every part, in the order in which parts get done.

    With no workers this is a plain loop. Otherwise each part is a Ray task on one CPU; a task whose process
    dies is run again. Parts, results and `work` must pickle, and a part as text says which files it is of.

    Args:
        workers: parts that are worked on at once; None for as many as the cluster has CPUs, also when it
            grows in the meantime.
        asks_model: whether the work asks a model that is put on a GPU if there is one: each part has one,
            where some are free, or sees none.

    Raises:
        RaynerError: as `work` raised it; or the process of a part died each time that it was run.
        InputError: no node has had room for any part for `RAYNER_WAIT_SECONDS`, at the start or once all
            nodes with CPUs, or GPUs, went.
    """
    if workers == 0:
        yield from map(work, parts)
        return
    import ray

    ensure_ray()
    # In a list Ray leaves it a reference: it would unpickle what may hold a large dictionary for each part.
    shared = [ray.put(work)]
    gpus, hidden = gpus_of_each(1) if asks_model else (0.0, {})
    needs = Needs(cpus=1, gpus=gpus)
    # By name: in a trial of a sweep, what is unset means its placement group, which keeps no CPU for this.
    on_one = ray.remote(**needs.options(), **hidden, scheduling_strategy="DEFAULT")
    task, first = on_one(_result), on_one(empty_task)
    waiting, running = iter(parts), dict[Any, Part]()
    started = first.remote()
    try:
        while True:
            room = (_most_at_once(needs) if workers is None else workers) - len(running)
            running |= {task.remote(shared, part): part for part in itertools.islice(waiting, max(0, room))}
            if not running:
                return
            # Parts may take long, and do not say when they begin.
            wait_for_room([started], needs)
            # One at a time: the next part starts when one is done, however long the others take.
            ended: list[Any] = []
            while not ended:
                ended, _ = ray.wait(list(running), num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
                if not ended and not _may_have_room(needs):
                    # All nodes went, with the parts that they had: others may come.
                    started = first.remote()
                    wait_for_room([started], needs)
            (done,) = ended
            part = running.pop(done)
            try:
                result: Any = ray.get(done)
            except lost_errors() as error:
                lost = f"{str(part)[:_SHOWN]}: the work lost its node or process each time"
                raise RaynerError(f"{lost}, as when memory runs out: {first_line(error)}") from error
            if isinstance(result, RaynerError):
                raise result
            yield result
    finally:
        # `started` is left alone, as it ends by itself: a task of Ray 2.60 that is cancelled at the moment in
        # which it begins ends this process (ray-project/ray#54846).
        for unfinished in running:
            ray.cancel(unfinished)


def _most_at_once(needs: Needs) -> int:
    import ray

    # A GPU node is not asked for as lightly as a CPU.
    return 1 + int(ray.cluster_resources().get("GPU", 0)) if needs.gpus else cluster_cpus() + AHEAD


def _may_have_room(needs: Needs) -> bool:
    import ray

    there = ray.cluster_resources()
    return bool(there.get("CPU") and (there.get("GPU") or not needs.gpus))


def cluster_cpus() -> int:
    """The CPUs of this process's cluster; starts one where there is none."""
    import ray

    ensure_ray()
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def code_digest(*patterns: str) -> str:
    """A hash of these modules of the package: what other code made is not taken up again."""
    package = Path(__file__).parents[1]
    sources = sorted(path for pattern in patterns for path in package.glob(f"{pattern}.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _work_of(shared: Any) -> Callable[[Any], Any]:
    """What the last parts of this process were done with is kept, by its name: a reference that is kept would
    keep the object in Ray's store."""
    import ray

    if shared.hex() not in _kept:
        _kept.clear()
        _kept[shared.hex()] = ray.get(shared)
    return _kept[shared.hex()]


def _result(shared: Sequence[Any], part: Any) -> Any:
    try:
        return _work_of(*shared)(part)
    except RaynerError as error:
        # As a value: raised, it would come back as an error of Ray's.
        return error
