"""What the workers of a run do together. Without a process group, a run is its own only worker.

Gradients are summed here rather than by DistributedDataParallel: DDP averages over workers, but a loss that
is divided by a count over all workers needs a sum; and it expects a backward pass of every worker in every
step and through every parameter, but a worker's part of a step may be empty, and its parts' number differs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rayner.errors import StorageError
from rayner.runtime.training.failures import Company, GroupLostError, company
from rayner.tasks.sharing import from_first

BUCKET_BYTES = 64 * 2**20
TABLE_ROWS = 4096
"""A gradient with as many rows is looked through for those that are zero, on a CPU."""
ATTEMPTS = 45
PAUSE = 2.0
"""NFS keeps what it knows of a folder for up to a minute."""

log = logging.getLogger(__name__)

T = TypeVar("T")


_expected = 1
_timeout: timedelta | None = None
_hosts: dict[Any, Any] = {}


@contextmanager
def same_workers(timeout: timedelta | None = None) -> Iterator[Company]:
    """Hold on to the process group that there is now: the run ends on all workers of it, or on none.

    Where the group goes, what asks for it raises: when a worker dies, Ray Train destroys the group of the
    others while their loops still run. Where this worker fails, the others are told.

    Args:
        timeout: how long hosts wait for each other; by default as long as torch would.

    Raises:
        RaynerError: what another worker raised, naming that worker.
        WorkerFailedError: a worker, perhaps this one, failed of something that is no RaynerError.
        GroupLostError: the group is gone, or another worker died without a word.
    """
    global _expected, _timeout
    workers = company()
    before, _expected, _timeout = (_expected, _timeout), workers.workers, timeout
    try:
        yield workers
    except BaseException as error:
        raised = workers.leave(error)
        if raised is error:
            raise
        raise raised from error
    finally:
        _expected, _timeout = before


def world_size() -> int:
    """How many workers the run has.

    Raises:
        GroupLostError: within `same_workers`, they were more.
    """
    found = dist.get_world_size() if dist.is_initialized() else 1
    if found < _expected:
        raise GroupLostError(f"the process group of {_expected} workers is gone")
    return found


def rank() -> int:
    """This worker's number, from 0; raises as `world_size`."""
    return dist.get_rank() if world_size() > 1 else 0


def sum_over_workers(values: Tensor) -> Tensor:
    """The elementwise sum over all workers, in place."""
    if world_size() > 1:
        dist.all_reduce(values)
    return values


def sum_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Replace every gradient by its sum over all workers.

    A parameter that no worker has a gradient of keeps None, so that the optimizer passes it by as it does in
    a run of one worker. On CPUs, of a table, such as the embeddings of words, only those rows travel that a
    worker has a gradient in: they are half of what a small encoder has.
    """
    if world_size() == 1:
        return
    used = torch.tensor([p.grad is not None for p in parameters], dtype=torch.float32)
    dist.all_reduce(used, group=_host_group())
    summed = [p for p, count in zip(parameters, used.tolist(), strict=True) if count]
    for parameter in summed:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    whole = [p for p in summed if not (may_be_sparse(p) and _sum_rows(p))]
    for bucket in _buckets(whole):
        flat = torch.cat([_gradient(p).reshape(-1) for p in bucket])
        dist.all_reduce(flat)
        parts = flat.split([p.numel() for p in bucket])
        for parameter, part in zip(bucket, parts, strict=True):
            parameter.grad = part.view_as(parameter)


def may_be_sparse(parameter: Tensor) -> bool:
    """Whether the rows of its gradient are looked at.

    Not on a GPU: the host would wait there in each step, to know how many rows travel.
    """
    return parameter.device.type == "cpu" and parameter.dim() == 2 and len(parameter) >= TABLE_ROWS


def _sum_rows(table: nn.Parameter) -> bool:
    """Sum a gradient of which few rows are not zero; False, and nothing is summed, if they are many."""
    gradient = _gradient(table)
    filled = gradient.ne(0).any(1).to(torch.uint8)
    dist.all_reduce(filled, dist.ReduceOp.MAX)
    rows = filled.nonzero()[:, 0]
    if len(rows) * 2 > len(gradient):
        return False
    if len(rows):
        part = gradient[rows]
        dist.all_reduce(part)
        gradient[rows] = part
    return True


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _host_group() -> dist.ProcessGroup | None:
    """The workers over connections of their hosts: what is no tensor of a GPU need not wait for the GPU.

    Made once for each process group, by all its workers together.
    """
    if dist.get_backend() == "gloo":
        return None
    world = dist.group.WORLD
    if world not in _hosts:
        _hosts.clear()
        _hosts[world] = dist.new_group(backend="gloo", timeout=_timeout)
    return _hosts[world]


def broadcast_model(model: nn.Module) -> None:
    """Give every worker the parameters and buffers of worker 0."""
    if world_size() == 1:
        return
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            dist.broadcast(tensor.data, src=0)


def gather_objects(value: T) -> list[T]:
    """The value of every worker, by rank."""
    if world_size() == 1:
        return [value]
    gathered: list[Any] = [None] * world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def gather_on_first(value: T) -> list[T]:
    """The value of every worker, by rank, on worker 0; nothing on the others."""
    if world_size() == 1:
        return [value]
    gathered: list[Any] | None = [None] * world_size() if rank() == 0 else None
    dist.gather_object(value, gathered)
    return gathered or []


def on_first(function: Callable[[], T]) -> T:
    """What the function returns on worker 0, the only one that calls it, on every worker.

    Raises:
        Exception: what the function raised on worker 0; on the others, what `Company.seen_by_others` makes
            of it, so that none waits in vain.
    """
    return function() if world_size() == 1 else from_first(function, company().seen_by_others)


def same_on_all(read: Callable[[], str], where: Path) -> None:
    """Wait until all workers read the same: a mount may show for a while what was there before.

    Raises:
        StorageError: they do not, for `ATTEMPTS` times `PAUSE` seconds.
    """
    for attempt in range(ATTEMPTS):
        found = gather_objects(read())
        others = [number for number, value in enumerate(found) if value != found[0]]
        if not others:
            return
        if attempt == 0 and rank() == 0:
            log.info("waiting until worker %d sees the same in %s as worker 0", others[0], where)
        time.sleep(PAUSE)
    what = (
        f"worker {others[0]} of {len(found)} sees {found[others[0]] or 'nothing'} where worker 0 sees "
        f"{found[0] or 'nothing'}"
    )
    hint = "mount the storage so that all nodes see a change soon, and run the same command again: it goes on"
    raise StorageError(str(where), what, hint)


def _buckets(parameters: Iterable[nn.Parameter]) -> Iterable[list[nn.Parameter]]:
    """Parameters of one dtype and device, at most `BUCKET_BYTES` together."""
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        bytes_ = parameter.numel() * parameter.element_size()
        alike = bucket and (bucket[0].dtype, bucket[0].device) == (parameter.dtype, parameter.device)
        if bucket and (not alike or size + bytes_ > BUCKET_BYTES):
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += bytes_
    if bucket:
        yield bucket
