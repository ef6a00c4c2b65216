"""One optimization step, the same whatever the number of workers and of parts it is taken in."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rayner.config.base import Precision
from rayner.counted import counted
from rayner.errors import DivergedError
from rayner.models.precision_choice import set_precision
from rayner.runtime.training.distributed import rank, sum_gradients, sum_over_workers, world_size
from rayner.runtime.training.gradients import Backward
from rayner.runtime.training.optimization import (
    Average,
    build_optimizer,
    checkpoint_gradients,
    freeze_word_embeddings,
    seed_step,
)
from rayner.runtime.training.steps import Step
from rayner.tasks.base import Examples, Plan, Progress
from rayner.tasks.encoder_task import EncoderTask

SAMPLED_STEPS = 100
"""How many steps the average of `normalization: corpus` is taken over."""
MOST_SKIPPED = 50
"""Steps of float16 one after the other without a finite gradient: each halves the loss scale, of which
nothing is left after so many."""
_OVERFLOW = "were skipped, as their gradients are no finite numbers in float16"
_INSTEAD = "start over with --fresh and training.precision=bfloat16 or float32, or a lower learning rate"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Learner:
    """A model while it learns.

    `divisors` are what each part of the loss is divided by in every step; None for the counts of the step.
    `parameters` are those that learn.
    """

    task: EncoderTask[Any]
    model: nn.Module
    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    average: Average | None
    divisors: Mapping[str, float] | None
    device: torch.device
    precision: Precision
    meter: Meter


def build_learner(
    task: EncoderTask[Any],
    model: nn.Module,
    divisors: Mapping[str, float] | None,
    device: torch.device,
    precision: Precision,
) -> Learner:
    """Everything that a model needs to learn; its encoders compute in the precision from now on."""
    settings = task.recipe.training
    model.to(device).train()
    set_precision(model, precision)
    if settings.gradient_checkpointing:
        checkpoint_gradients(model)
    if not settings.train_word_embeddings:
        freeze_word_embeddings(model)
    return Learner(
        task=task,
        model=model,
        parameters=[p for p in model.parameters() if p.requires_grad],
        optimizer=build_optimizer(model, settings),
        scaler=torch.amp.GradScaler(device.type, enabled=precision == "float16"),
        average=None if settings.average is None else Average(model, settings.average),
        divisors=divisors,
        device=device,
        precision=precision,
        meter=Meter(task.weights, device, may_skip=precision == "float16"),
    )


def take_step(learner: Learner, step: Step, progress: Progress) -> None:
    """Change the parameters once.

    Each part of the loss is the sum over all examples of the step, on all workers and in all forward passes,
    over the count of the whole step, which is known before the first backward pass.

    Args:
        progress: the number of the step, from 0.
    """
    recipe = learner.task.recipe
    settings = recipe.training
    seed_step(recipe.seed, progress.step, rank())
    learner.optimizer.zero_grad(set_to_none=True)
    backward = Backward(learner.task, learner.model, learner.scaler, learner.precision, learner.device)
    parts = backward(step.batches, progress, _factors(learner, step, progress))
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
    learner.meter.add(progress.step, parts, norm)


def mean_counts(task: EncoderTask[Any], examples: Examples, plan: Plan, steps: int) -> dict[str, float]:
    """What a step has on average of what each part of the loss counts, over the first steps of a plan.

    Every worker finds the same numbers by itself.
    """
    recipe = task.recipe
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

    Args:
        may_skip: the loss scale of float16 is found by overflowing. Such a step is skipped, and no fault.
    """

    def __init__(self, weights: Mapping[str, float], device: torch.device, may_skip: bool = False) -> None:
        self._weights, self._may_skip = weights, may_skip
        # All, and the last ones in a row.
        self._skipped = torch.zeros(2, dtype=torch.int64, device=device)
        self._seen = 0
        self._sums = torch.zeros(len(weights), dtype=torch.float64, device=device)
        self._fault = torch.full((), -1, dtype=torch.int64, device=device)
        self._steps = 0

    def add(self, step: int, parts: Tensor, norm: Tensor) -> None:
        """Take the parts of a step, this worker's share of them, and the norm of its gradients."""
        finite = parts.isfinite().all()
        if self._may_skip:
            skipped = ~norm.isfinite()
            self._skipped = torch.stack([self._skipped[0] + skipped, (self._skipped[1] + 1) * skipped])
        else:
            finite &= norm.isfinite()
        self._seen += 1
        self._fault = torch.where((self._fault < 0) & ~finite, step, self._fault)
        self._sums += parts
        self._steps += 1

    def check(self) -> None:
        """Raise DivergedError on every worker if the loss or the gradients of any were no number."""
        step = _highest_over_workers(self._fault)
        if step >= 0:
            what = "the loss or its gradients are no finite number"
            hint = "start over with --fresh and a lower training.learning_rate or training.precision=float32"
            raise DivergedError(f"step {step + 1}", what, hint)
        if (skipped := int(self._skipped[1])) > MOST_SKIPPED:
            raise DivergedError("training.precision", f"the last {skipped} steps {_OVERFLOW}", _INSTEAD)

    def conclude(self, steps: int) -> None:
        """Say at the end of a run of so many steps how many were skipped, where they are a large part.

        Raises:
            DivergedError: all of them.
        """
        skipped = int(self._skipped[0])
        if skipped and skipped == steps:
            raise DivergedError("training.precision", f"all {counted(skipped, 'step')} {_OVERFLOW}", _INSTEAD)
        if skipped > self._seen / 4:
            of = counted(self._seen, "step")
            log.warning("%s of %s %s; %s", f"{skipped:,}", of, _OVERFLOW, _INSTEAD)

    def read(self) -> tuple[float, dict[str, float]]:
        """The loss and its parts over the steps since the last reading, over all workers."""
        means = (sum_over_workers(self._sums.clone()) / max(1, self._steps)).tolist()
        self._sums.zero_()
        self._steps = 0
        parts = dict(zip(self._weights, means, strict=True))
        return sum(self._weights[name] * mean for name, mean in parts.items()), parts


def _factors(learner: Learner, step: Step, progress: Progress) -> dict[str, Tensor]:
    """One over what the sum of each part is divided by; 1 where there is nothing to divide by.

    The sum is 0 there, except a teacher's, which says something of spans where no mention is annotated.
    """
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
    return dict(zip(names, torch.where(counts > 0, 1 / counts, 1.0), strict=True))


def _highest_over_workers(value: Tensor) -> int:
    found = value.clone()
    if world_size() > 1:
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
    return int(found)
