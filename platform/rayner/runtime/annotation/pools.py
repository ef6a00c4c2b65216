"""How many actors annotate, and what each of them asks Ray for."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import torch

from rayner.config.base import resource_fault
from rayner.counted import counted
from rayner.errors import InputError
from rayner.runtime.annotation.block import Model
from rayner.runtime.annotation.execution import Pool
from rayner.runtime.elsewhere import Needs
from rayner.runtime.model_memory import held_by, memory_of, placed_by_memory, room_by_memory
from rayner.tasks.stages import PipelineSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """What the caller of `annotate` says of the actors; None is left to what there is."""

    workers: int | None = None
    max_workers: int | None = None
    per_stage: bool = False
    cpus: float | None = None
    gpus: float | None = None
    memory: float | None = None

    @property
    def grows(self) -> bool:
        """Whether nobody said how many actors there are."""
        return self.workers is None and self.max_workers is None

    def check(self) -> None:
        """Refuse what cannot be had together.

        Raises:
            InputError: it names the options.
        """
        if self.workers is not None and self.max_workers is not None:
            what = "conflicts with --max-workers"
            raise InputError("--workers", what, "give one: a fixed number, or a limit")
        if self.workers == 0 and self.per_stage:
            raise InputError("--pool-per-stage", "conflicts with --workers 0", "leave one of the two out")
        if fault := resource_fault(self.cpus or 0, self.gpus or 0):
            raise InputError(f"--{fault[0]}", fault[1])
        if self.workers == 0 and self.gpus and not torch.cuda.is_available():
            seen = "where this process, which --workers 0 leaves the work to, sees no GPU"
            raise InputError("--gpus", f"asks for {self.gpus:g} {seen}", "leave one of the two out")


def pool_of(asked: PoolSettings, stages: int | None) -> Pool:
    """The pool, or a pool for each of so many stages, by what the cluster has now; Ray is started."""
    import ray

    from rayner.runtime.cluster import ensure_ray, is_one_machine, share_of

    ensure_ray()
    have = ray.cluster_resources()
    workers, cpus, gpus = asked.workers, asked.cpus, asked.gpus
    at_once = (workers or 1) * stages if stages and is_one_machine() else 1
    if cpus is None:
        cpus = share_of("CPU", at_once)
    if gpus is None:
        gpus = share_of("GPU", at_once) if have.get("GPU") else 0.0
    room = [have.get("CPU", 1.0) / cpus] if cpus else []
    room += [have.get("GPU", 0.0) / gpus] if gpus else []
    fits = int(min(room, default=1))
    pools = stages or 1
    # Where the other pools have an actor each.
    most = workers or asked.max_workers or max(1, fits - (pools - 1))
    least = workers or 1
    if max(most, least * pools) > fits:
        wanted = max(most, least * pools)
        log.warning("the cluster has room for %d of %s until it grows", fits, counted(wanted, "worker"))
    return Pool(least, most, cpus, gpus, stages)


def with_memory(pool: Pool, source: Model, asked: PoolSettings) -> Pool:
    """The pool with the memory of its actors: what was asked for, or what is probable by what they hold."""
    import ray

    memory = asked.memory
    if memory == 0 or (memory is None and not isinstance(source, PipelineSettings)):
        return pool
    each = Needs(pool.cpus, pool.gpus)
    if memory is not None:
        found = (int(memory * 2**30),) * (pool.stages or 1)
        each = replace(each, memory=found[0])
    else:
        assert isinstance(source, PipelineSettings)
        held = [[stage] for stage in source.stages] if pool.stages else [source.stages]
        found = tuple(memory_of(held_by(stages)) for stages in held)
        # With a pool for each stage all must begin, else those begin that there is room for.
        each = placed_by_memory(each, max(found), pool.stages * pool.least if pool.stages else 1)
    if each.memory is None:
        return pool
    room = room_by_memory(each, ray.nodes()) - (pool.stages or 1) + 1
    most = max(pool.least, min(pool.most, room)) if asked.grows else pool.most
    return replace(pool, most=most, memory=found)
