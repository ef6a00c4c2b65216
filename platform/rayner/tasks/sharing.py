"""Work beside the steps of a training that its workers share out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

BYTES = 64 * 2**20
"""What the rows of all workers take that are exchanged at a time."""

_NONE = np.empty(0, np.int64)

T = TypeVar("T")
U = TypeVar("U")


def shares(work: Callable[[Sequence[T]], U], items: Sequence[T]) -> list[U]:
    """What each worker makes of its part of the items, every n-th one; by worker, the same on all workers."""
    if _workers() == 1:
        return [work(items)]
    found: list[Any] = [None] * _workers()
    dist.all_gather_object(found, work(items[dist.get_rank() :: _workers()]))
    return found


def fill(
    rows: Tensor, parts: Sequence[np.ndarray], work: Callable[[np.ndarray], Tensor], together: bool = True
) -> None:
    """Fill rows [N, ...], those of each part with what `work` makes of it, each part on one worker; all have
    all rows then. No part is divided: what is made of it is the same however many workers there are.

    Args:
        rows: on a CPU, of one shape and dtype on all workers.
        parts: the numbers of rows, each in one part; the same on all workers.
        together: False if this worker is the only one that calls it.
    """
    workers = _workers() if together else 1
    for part in parts[dist.get_rank() if workers > 1 else 0 :: workers]:
        rows[part] = work(part)
    if workers > 1:
        _exchange(rows, [np.concatenate([*parts[worker::workers], _NONE]) for worker in range(workers)])


def blocks(rows: int, size: int) -> list[np.ndarray]:
    """The numbers of so many rows as parts of that size, the last one of what is left."""
    return np.split(np.arange(rows), range(size, rows, size))


def from_first(function: Callable[[], T], told: Callable[[Exception], Exception] = lambda error: error) -> T:
    """What the function returns or raises on worker 0, the only one that calls it, on every worker.

    Args:
        told: what the others raise of an error of worker 0.
    """
    if _workers() == 1:
        return function()
    result, failure = None, None
    if dist.get_rank() == 0:
        try:
            result = function()
        except Exception as error:
            failure = error
    outcome: list[Any] = [result, None if failure is None else told(failure)]
    dist.broadcast_object_list(outcome, src=0)
    error = outcome[1] if failure is None else failure
    if error is not None:
        raise error
    return outcome[0]


def _workers() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def _exchange(rows: Tensor, made: Sequence[np.ndarray]) -> None:
    """Give every worker the rows that the others made, as many at a time as take `BYTES`."""
    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    most = max(len(part) for part in made)
    at_once = max(1, BYTES // (len(made) * rows[:1].nbytes)) if most else 1
    for begin in range(0, most, at_once):
        places = [part[begin : begin + at_once] for part in made]
        own = rows[places[dist.get_rank()]]
        # Collectives want shares of one size.
        share = own.new_zeros(min(at_once, most - begin), *rows.shape[1:], device=device)
        share[: len(own)] = own
        shares = [torch.empty_like(share) for _ in made]
        dist.all_gather(shares, share)
        for of_worker, found in zip(places, shares, strict=True):
            rows[of_worker] = found[: len(of_worker)].to(rows.device)
