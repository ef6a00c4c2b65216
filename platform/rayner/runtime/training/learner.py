"""One optimization step, the same whatever the number of workers and of parts it is taken in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rayner.config import BaseRecipe
from rayner.errors import DivergedError
from rayner.runtime.training.contrast import contrast_backward
from rayner.runtime.training.distributed import rank, sum_gradients, sum_over_workers, world_size
from rayner.runtime.training.optimization import (
    Average,
    autocast,
    build_optimizer,
    checkpoint_gradients,
    seed_step,
)
from rayner.runtime.training.steps import Examples, Step, to_device
from rayner.tasks.base import ContrastiveTask, Progress, SummedTask, TrainTask

SAMPLED_STEPS = 100
"""How many steps the average of `normalization: corpus` is taken over."""


@dataclass(slots=True)
class Learner:
    """A model while it learns.

    `divisors` are what each part of the loss is divided by in every step; None for the counts of the step.
    `parameters` are those that learn.
    """

    recipe: BaseRecipe
    task: TrainTask[Any, Any, Any]
    model: nn.Module
    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    average: Average | None
    divisors: Mapping[str, float] | None
    device: torch.device
    meter: Meter


def build_learner(
    recipe: BaseRecipe,
    task: TrainTask[Any, Any, Any],
    model: nn.Module,
    divisors: Mapping[str, float] | None,
    device: torch.device,
) -> Learner:
    """Everything that a model needs to learn."""
    settings = recipe.training
    model.to(device).train()
    if settings.gradient_checkpointing:
        checkpoint_gradients(model)
    return Learner(
        recipe=recipe,
        task=task,
        model=model,
        parameters=[p for p in model.parameters() if p.requires_grad],
        optimizer=build_optimizer(model, task.head_parameters(model), settings),
        scaler=torch.amp.GradScaler(device.type, enabled=settings.precision == "float16"),
        average=None if settings.average is None else Average(model, settings.average),
        divisors=divisors,
        device=device,
        meter=Meter(task.weights, device),
    )


def take_step(learner: Learner, step: Step, progress: Progress) -> None:
    """Change the parameters once.

    Each part of the loss is the sum over all examples of the step, on all workers and in all forward passes,
    over the count of the whole step, which is known before the first backward pass.

    Args:
        progress: the number of the step, from 0.
    """
    task, settings, names = learner.task, learner.recipe.training, list(learner.task.weights)
    seed_step(learner.recipe.seed, progress.step, rank())
    learner.optimizer.zero_grad(set_to_none=True)
    factors = _factors(learner, step, progress)
    match task:
        case ContrastiveTask():
            by_name = dict(zip(names, factors, strict=True))
            means = contrast_backward(
                task,
                learner.model,
                step.batches,
                progress,
                by_name,
                learner.scaler,
                settings.precision,
                learner.device,
            )
            parts = torch.stack([means.get(name, factors.new_zeros(())).to(factors.dtype) for name in names])
        case SummedTask():
            parts = _backward(learner, task, step, progress, factors)
        case _:
            raise TypeError(f"{type(task).__name__} has neither a loss nor a contrast")
    sum_gradients(learner.parameters)
    learner.scaler.unscale_(learner.optimizer)
    grads = [p.grad for p in learner.parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(grads)
    if settings.clip is not None:
        torch.nn.utils.clip_grads_with_norm_(learner.parameters, settings.clip, norm)
    learner.scaler.step(learner.optimizer)
    learner.scaler.update()
    if learner.average is not None:
        learner.average.update()
    # The loss scale of float16 is found by overflowing: there, an infinite gradient is no fault.
    learner.meter.add(progress.step, parts, None if learner.scaler.is_enabled() else norm)


def _backward(
    learner: Learner, task: SummedTask[Any, Any, Any], step: Step, progress: Progress, factors: Tensor
) -> Tensor:
    """Add the gradients of a step, batch by batch; this worker's share of the mean of each part."""
    names, precision = list(task.weights), learner.recipe.training.precision
    weights = torch.tensor([task.weights[name] for name in names], dtype=factors.dtype).to(learner.device)
    parts = torch.zeros_like(factors)
    for batch in step.batches:
        with autocast(learner.device, precision):
            sums = task.loss(learner.model, to_device(batch, learner.device), progress)
        means = torch.stack([sums[name] for name in names]).to(factors.dtype) * factors
        parts += means.detach()
        loss = (means * weights).sum()
        if loss.requires_grad:
            learner.scaler.scale(loss).backward()
    return parts


def mean_counts(
    recipe: BaseRecipe,
    task: TrainTask[Any, Any, Any],
    examples: Examples,
    plan: Sequence[np.ndarray],
    steps: int,
) -> dict[str, float]:
    """What a step has on average of what each part of the loss counts, over the first steps of a plan.

    Every worker finds the same numbers by itself.
    """
    totals = dict.fromkeys(task.weights, 0.0)
    sampled = plan[:SAMPLED_STEPS]
    for number, indices in enumerate(sampled):
        seeds = [(recipe.seed, 0, int(index)) for index in indices]
        batch = task.collate(examples.fetch(indices), seeds)
        for name, count in task.counts(batch, Progress(number, steps, 0, recipe.training.epochs)).items():
            totals[name] += count
    return {name: total / max(1, len(sampled)) for name, total in totals.items()}


class Meter:
    """The mean of each part of the loss over some steps, and whether any was no number.

    Numbers stay on the device until they are read, so that no step waits for the one before.
    """

    def __init__(self, weights: Mapping[str, float], device: torch.device) -> None:
        self._weights = weights
        self._sums = torch.zeros(len(weights), dtype=torch.float64, device=device)
        self._fault = torch.full((), -1, dtype=torch.int64, device=device)
        self._steps = 0

    def add(self, step: int, parts: Tensor, norm: Tensor | None) -> None:
        """Take the parts of a step, this worker's share of them, and the norm of its gradients."""
        finite = parts.isfinite().all()
        if norm is not None:
            finite &= norm.isfinite()
        self._fault = torch.where((self._fault < 0) & ~finite, step, self._fault)
        self._sums += parts
        self._steps += 1

    def check(self) -> None:
        """Raise DivergedError on every worker if the loss or the gradients of any were no number."""
        step = _highest_over_workers(self._fault)
        if step >= 0:
            what = "the loss or its gradients are no finite number"
            cure = "start over with --fresh and a lower training.learning_rate or training.precision=float32"
            raise DivergedError(f"step {step + 1}", what, cure)

    def read(self) -> tuple[float, dict[str, float]]:
        """The loss and its parts over the steps since the last reading, over all workers."""
        means = (sum_over_workers(self._sums.clone()) / max(1, self._steps)).tolist()
        self._sums.zero_()
        self._steps = 0
        parts = dict(zip(self._weights, means, strict=True))
        return sum(self._weights[name] * mean for name, mean in parts.items()), parts


def _factors(learner: Learner, step: Step, progress: Progress) -> Tensor:
    """[parts] one over what the sums are divided by; 0 where there is nothing to divide by."""
    names = list(learner.task.weights)
    if learner.divisors is not None:
        counts = torch.tensor([learner.divisors[name] for name in names], dtype=torch.float64)
    else:
        rows = [learner.task.counts(batch, progress) for batch in step.batches]
        sums = [sum(float(row.get(name, 0)) for row in rows) for name in names]
        counts = torch.tensor(sums, dtype=torch.float64)
    counts = counts.to(learner.device, non_blocking=True)
    if learner.divisors is None:
        sum_over_workers(counts)
    return torch.where(counts > 0, 1 / counts, 0.0)


def _highest_over_workers(value: Tensor) -> int:
    found = value.clone()
    if world_size() > 1:
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
    return int(found)
