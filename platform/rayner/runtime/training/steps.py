"""The batches of a run, step by step, made ready in the background."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from rayner.data import batches
from rayner.models.threads import one_thread
from rayner.runtime.training.distributed import rank, world_size
from rayner.tasks.base import Examples, Size
from rayner.tasks.encoder_task import EncoderTask

LOOK_AHEAD = 2

T = TypeVar("T")
Argument = TypeVar("Argument")


@dataclass(frozen=True, slots=True)
class Step:
    """This worker's part of a step: batches of one forward and backward pass each; none if its part is empty.

    `tokens` are those of all workers' examples as they are stored, `held` those of this worker's; `sizes` are
    what became of them.
    """

    batches: list[Any]
    tokens: int
    held: int
    sizes: list[Size]


def epoch_steps(
    task: EncoderTask[Any], examples: Examples, epoch: int, plan: Sequence[np.ndarray], pin: bool
) -> contextlib.closing[Generator[Step, None, None]]:
    """This worker's part of each planned step, in order, while a thread makes the next ones ready."""
    recipe = task.recipe
    per_forward = recipe.training.tokens_per_forward
    budget = None if per_forward is None else max(1, per_forward // world_size())
    lengths = examples.lengths

    def make(indices: np.ndarray) -> Step:
        part = batches.share(indices, lengths, world_size(), rank())
        parts = batches.forwards(part, lengths, budget)
        made = []
        for chosen in parts:
            seeds = [(recipe.seed, epoch, int(index)) for index in chosen]
            batch = task.collate(examples.fetch(chosen), seeds)
            made.append(move(batch, Tensor.pin_memory) if pin else batch)
        sizes = [task.size_of(batch) for batch in made]
        return Step(made, int(lengths[indices].sum()), int(lengths[part].sum()), sizes)

    return contextlib.closing(_ahead(make, plan))


def _ahead(function: Callable[[Argument], T], arguments: Iterable[Argument]) -> Generator[T, None, None]:
    """`map`, with a thread that is at most `LOOK_AHEAD` results ahead."""
    pool = one_thread("batches")
    waiting: deque[Future[T]] = deque()
    try:
        for argument in arguments:
            waiting.append(pool.submit(function, argument))
            if len(waiting) > LOOK_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def to_device(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors on the device."""
    if device.type == "cpu":
        return batch
    return move(batch, lambda tensor: tensor.to(device, non_blocking=True))


def move(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The value with every tensor changed, within dataclasses, mappings, lists and tuples."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: move(inner, change) for key, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move(inner, change) for inner in value))
    if isinstance(value, (list, tuple)):
        return type(value)(move(inner, change) for inner in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: move(getattr(value, f.name), change) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **fields)
    return value
