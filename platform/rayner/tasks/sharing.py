"""Work on a development set that the workers of a training share out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch.distributed as dist

T = TypeVar("T")
U = TypeVar("U")


def shares(work: Callable[[Sequence[T]], U], items: Sequence[T]) -> list[U]:
    """What each worker makes of its part of the items, every n-th one; by worker, the same on all workers."""
    if _workers() == 1:
        return [work(items)]
    found: list[Any] = [None] * _workers()
    dist.all_gather_object(found, work(items[dist.get_rank() :: _workers()]))
    return found


def shared_out(encode: Callable[[Sequence[str]], np.ndarray], texts: Sequence[str]) -> np.ndarray:
    """The vectors [N, D] of texts, each worker encoding every n-th distinct one; the same on all workers."""
    if _workers() == 1:
        return encode(texts)
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    distinct = list(place)
    # Every worker encodes something, so that all know the width.
    mine = distinct[dist.get_rank() :: _workers()] or distinct[:1]
    parts: list[Any] = [None] * _workers()
    dist.all_gather_object(parts, encode(mine))
    vectors = np.empty((len(distinct), parts[0].shape[1]), parts[0].dtype)
    for rank, part in enumerate(parts):
        rows = vectors[rank :: _workers()]
        rows[:] = part[: len(rows)]
    return vectors[[place[text] for text in texts]]


def from_first(function: Callable[[], T]) -> T:
    """What the function returns on worker 0, on every worker; what it raises there, too."""
    if _workers() == 1:
        return function()
    outcome: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            outcome[0] = function()
        except Exception as error:
            outcome[1] = error
    dist.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def _workers() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1
