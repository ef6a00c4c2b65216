"""The gradients of a step whose loss is over all its examples at once, on all workers and in all passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rayner.losses.gather import gather_rows
from rayner.runtime.training.distributed import sum_over_workers
from rayner.runtime.training.optimization import autocast
from rayner.runtime.training.steps import to_device
from rayner.tasks.base import ContrastiveTask, Embedded, Progress


@dataclass(frozen=True, slots=True)
class _Pass:
    """A batch, what the model made of it, and the random state that it began with."""

    batch: Any
    embedded: Embedded
    state: list[Tensor]


def contrast_backward(
    task: ContrastiveTask[Any, Any, Any],
    model: nn.Module,
    batches: Sequence[Any],
    progress: Progress,
    factors: Mapping[str, Tensor],
    scaler: torch.amp.GradScaler,
    precision: str,
    device: torch.device,
) -> dict[str, Tensor]:
    """Add the gradients of a step, as if all its examples, on all workers, had been one batch.

    A contrast is divided by its count over all workers, which is known after the forward passes. With one
    batch its activations are kept. With more, each is embedded twice: without activations for its vectors,
    then, the random state of dropout set back, to lead the gradients of the vectors on to the parameters (Gao
    et al. 2021, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup). Workers may have
    different numbers of batches, also none.

    Args:
        batches: this worker's.
        factors: for each part that is summed within batches, one over its count in the step.

    Returns:
        This worker's share of the mean of each part.
    """
    twice = len(batches) > 1
    passes = [_embed(task, model, batch, progress, precision, device, grad=not twice) for batch in batches]
    dtype = next(model.parameters()).dtype
    vectors = [p.embedded.vectors for p in passes]
    labels = [p.embedded.labels for p in passes]
    leaf = (
        torch.cat([v.detach() for v in vectors]) if passes else torch.zeros(0, 0, dtype=dtype, device=device)
    )
    leaf.requires_grad_()
    candidates, own = gather_rows(leaf)
    numbers = torch.cat(labels) if passes else torch.zeros(0, dtype=torch.int64, device=device)
    all_labels = gather_rows(numbers[:, None])[0][:, 0]
    contrasts = task.contrast(candidates[own], candidates, all_labels, own, progress)
    counts = torch.stack([count.double() for _, count in contrasts.values()])
    means = {
        name: total / count.clamp_min(1)
        for (name, (total, _)), count in zip(contrasts.items(), sum_over_workers(counts), strict=True)
    }
    loss = sum((task.weights[name] * mean for name, mean in means.items()), start=candidates.sum() * 0)
    # Every worker leads gradients back, also one without examples: the others wait for it.
    scaler.scale(loss).backward()
    parts = {name: mean.detach() for name, mean in means.items()}
    assert leaf.grad is not None
    gradients = leaf.grad.split([len(v) for v in vectors]) if passes else ()
    for one, gradient in zip(passes, gradients, strict=True):
        embedded = one.embedded
        if twice:
            _set_random_state(one.state, device)
            embedded = _embed(task, model, one.batch, progress, precision, device, grad=True).embedded
        for name, total in embedded.sums.items():
            parts[name] = parts.get(name, torch.zeros((), device=device)) + (total * factors[name]).detach()
        within = [scaler.scale(task.weights[n] * factors[n] * total) for n, total in embedded.sums.items()]
        torch.autograd.backward([embedded.vectors, *within], [gradient, *(None for _ in within)])
    return parts


def _embed(
    task: ContrastiveTask[Any, Any, Any],
    model: nn.Module,
    batch: Any,
    progress: Progress,
    precision: str,
    device: torch.device,
    grad: bool,
) -> _Pass:
    state = _random_state(device)
    with torch.set_grad_enabled(grad), autocast(device, precision):
        return _Pass(batch, task.embed(model, to_device(batch, device), progress), state)


def _random_state(device: torch.device) -> list[Tensor]:
    on_gpu = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.get_rng_state(), *on_gpu]


def _set_random_state(state: Sequence[Tensor], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)
