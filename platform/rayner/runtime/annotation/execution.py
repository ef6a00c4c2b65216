"""The blocks of all shards annotated: by a plain loop in this process, or by Ray Data with a pool of actors,
or one for each stage of a pipeline, so that their models need not share a worker and work at the same time.

Readers are Ray tasks that stream blocks, actors hold the model and write what they have done themselves. What
travels back to the driver are counts. Readers ask for no logical CPU, so that a pool of any size leaves them
room: a pool that holds all CPUs would otherwise wait for ever for what it keeps from being read. Ray starts
what asks for nothing on any node, at first all on a head that is there for no work; under such a head, each
actor leaves a hundredth of its CPUs to a reader instead.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from rayner.config.base import LEAST_OF_A_RESOURCE
from rayner.errors import RaynerError
from rayner.runtime.annotation.annotation_progress import Tick
from rayner.runtime.annotation.attempts import FAULTS
from rayner.runtime.annotation.block import BlockAnnotator, Done, Work
from rayner.runtime.annotation.missing_blocks import ToRead, missing_blocks, read, row_of
from rayner.runtime.annotation.output_folder import Output
from rayner.runtime.annotation.reading import Block
from rayner.runtime.cluster import ensure_ray, quiet_ray_data
from rayner.runtime.elsewhere import SECONDS_BETWEEN_LOOKS, Needs, empty_task, wait_for_room, waiting
from rayner.runtime.faults import WorkerFault, worker_failed
from rayner.runtime.shared_folder import check_visible, marker_file

READ_TASKS = 1024
READER_SHARE = 0.01
"""Of the CPUs of an actor."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pool:
    """The actors: `least` to `most` of them, each with so many logical CPUs and GPUs.

    `stages`: how many pools there are, one a stage, which work at the same time; None for one whose actors
    hold all stages. `memory`: bytes of an actor of each pool; none is as much as it takes.
    """

    least: int
    most: int
    cpus: float
    gpus: float
    stages: int | None = None
    memory: tuple[int, ...] = ()


def run_here(annotator: partial[BlockAnnotator], work: Sequence[ToRead], output: Output) -> Iterator[Tick]:
    """Annotate in this process."""
    annotate = annotator()
    for to_read in work:
        for name, block in missing_blocks(to_read, output):
            done = annotate(name, block)
            assert isinstance(done, Done)
            yield Tick(done, block.consumed)


def run_on_ray(
    annotator: partial[BlockAnnotator], work: Sequence[ToRead], output: Output, pool: Pool
) -> Iterator[Tick]:
    """Annotate with a pool of actors. A block whose actor dies is done again by another.

    Raises:
        NotSharedError: a node that works does not see the folder of the output.
        InputError: no node has had room for an actor for `RAYNER_WAIT_SECONDS`, at the start or once all
            nodes went.
        RaynerError: as the model or the reading raised it, or a worker failed in another way.
    """
    import ray
    from ray.data import ActorPoolStrategy, TaskPoolStrategy
    from ray.exceptions import RayError

    ensure_ray()
    rows = [{"work": pickle.dumps(to_read)} for to_read in work]
    share = READER_SHARE if _has_idle_head(ray.nodes()) else 0.0
    cpus = pool.cpus * (1 - share)
    _wait_for_room(pool, cpus)
    folder = Path(output.place.path) if output.place.is_local else None
    # One row a block, as it is what is scheduled and retried; progress is our own.
    callback = room_watch(_each(pool, cpus))
    with quiet_ray_data(1, callback), marker_file(folder) if folder else nullcontext() as marker:
        blocks = ray.data.from_items(rows, override_num_blocks=min(len(rows), READ_TASKS)).map_batches(
            partial(read, output, marker),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=max(pool.cpus * share, LEAST_OF_A_RESOURCE) if share else 0.0,
            # One for each actor, however few of them there is room for as yet: a reader keeps several busy.
            compute=TaskPoolStrategy(size=min(len(rows), pool.most)),
        )
        size: Mapping[str, Any] = (
            {"size": pool.least}
            if pool.least == pool.most
            else {"min_size": pool.least, "max_size": pool.most}
        )
        run = uuid.uuid4().hex
        for stage in range(pool.stages) if pool.stages is not None else (None,):
            blocks = blocks.map_batches(
                _Actor,
                fn_constructor_args=(
                    partial(annotator, run=run, cpus=pool.cpus, stage=stage),
                    max(1, int(pool.cpus)),
                    marker,
                ),
                batch_size=1,
                batch_format="pyarrow",
                num_cpus=cpus,
                num_gpus=pool.gpus,
                memory=pool.memory[stage or 0] if pool.memory else None,
                compute=ActorPoolStrategy(**size, max_tasks_in_flight_per_actor=2),
            )
        try:
            for row in blocks.iter_rows():
                result = pickle.loads(row["block"])
                if isinstance(result, RaynerError):
                    raise result
                yield result
        except RayError as error:
            raise worker_failed("annotate", error, "what is done is kept") from error


def _has_idle_head(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the head of the cluster has no CPUs: it is there for no work."""
    heads = [n["Resources"] for n in nodes if n["Alive"] and "node:__internal_head__" in n["Resources"]]
    return any(not head.get("CPU") for head in heads)


def _wait_for_room(pool: Pool, cpus: float) -> None:
    """Wait for a node with room for an actor; with a pool for each stage, for room for all pools at once.

    Ray Data says nothing of room that it waits for, and waits without a bound.
    """
    import ray
    from ray.util import placement_group, remove_placement_group

    each = _each(pool, cpus)
    if pool.stages is None or not (cpus or pool.gpus):
        room = ray.remote(**each.options())(empty_task)
        wait_for_room([room.remote()], each)
        return
    asked = {name: value for name, value in (("CPU", cpus), ("GPU", pool.gpus)) if value}
    memory = pool.memory or (0,) * pool.stages
    group = placement_group([{**asked, **({"memory": own} if own else {})} for own in memory] * pool.least)
    try:
        wait_for_room([group.ready()], each, pool.stages * pool.least)
    finally:
        remove_placement_group(group)


def _each(pool: Pool, cpus: float) -> Needs:
    return Needs(cpus, pool.gpus, max(pool.memory, default=None))


def room_watch(needs: Needs) -> type:
    """A callback of Ray Data, which waits without a bound or a word for nodes that all went.

    Its steps raise InputError once the cluster has lacked what an actor needs for `RAYNER_WAIT_SECONDS`.
    """
    import ray
    from ray.data._internal.execution.execution_callback import ExecutionCallback

    class RoomWatch(ExecutionCallback):
        def __init__(self) -> None:
            self._looked = -SECONDS_BETWEEN_LOOKS
            self._waiting: Iterator[float] | None = None

        def on_execution_step(self, executor: Any) -> None:
            if time.monotonic() - self._looked < SECONDS_BETWEEN_LOOKS:
                return
            self._looked, there = time.monotonic(), ray.cluster_resources()
            if there.get("CPU", 0) >= (needs.cpus or 0) and there.get("GPU", 0) >= needs.gpus:
                self._waiting = None
                return
            self._waiting = self._waiting or waiting(*needs.in_words())
            next(self._waiting)

    return RoomWatch


class _Actor:
    """Holds the model. Errors of ours travel as results: Ray would wrap them in its traceback.

    A fault of the actor ends its process, and Ray does the block again in another one.
    """

    def __init__(self, annotator: partial[BlockAnnotator], threads: int, marker: Path | None) -> None:
        import torch

        torch.set_num_threads(threads)
        try:
            if marker is not None:
                check_visible(marker)
            self._annotate: BlockAnnotator | RaynerError = annotator()
        except RaynerError as error:
            self._annotate = error

    def __call__(self, batch: pa.Table) -> pa.Table:
        name: str = batch["name"][0].as_py()
        return row_of(name, self._done(name, pickle.loads(batch["block"][0].as_py())))

    def _done(self, name: str, block: Block | Work | RaynerError) -> Tick | Work | RaynerError:
        annotate = self._annotate
        if isinstance(annotate, RaynerError):
            return annotate
        if isinstance(block, RaynerError):
            return block
        try:
            done = annotate(name, block)
            return done if isinstance(done, Work) else Tick(done, block.consumed)
        except Exception as error:
            if isinstance(error, RaynerError) and not isinstance(error, WorkerFault):
                return error
            if annotate.fault(name) >= FAULTS:
                what = str(error) if isinstance(error, WorkerFault) else f"annotate: {error!r:.300}"
                return RaynerError(f"{what}; {FAULTS} workers failed so over the block of {block.where}")
            log.exception("this worker failed over the block of %s, and ends", block.where)
        sys.stderr.flush()
        # Not sys.exit: Ray would take that for an end that was asked for, and start no other.
        os._exit(1)
