"""The gradients of a step: of sums over batches, and of contrasts over all vectors of all workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rayner.losses.gather import gather_rows
from rayner.models.precision import autocast
from rayner.runtime.training.distributed import sum_over_workers
from rayner.runtime.training.steps import to_device
from rayner.tasks.base import Output, Progress
from rayner.tasks.encoder_task import EncoderTask


@dataclass(frozen=True, slots=True)
class Backward:
    """What gradients are computed with, in every step of a run."""

    task: EncoderTask[Any]
    model: nn.Module
    scaler: torch.amp.GradScaler
    precision: str
    device: torch.device

    def __call__(self, batches: Sequence[Any], progress: Progress, factors: Mapping[str, Tensor]) -> Tensor:
        """Add the gradients of a step, as if all its examples, on all workers, had been one batch.

        The sums of parts are divided by counts that are known beforehand; a contrast by its count over all
        workers, which is known after the forward passes. A contrast with one batch keeps its activations.
        With more, each goes forward twice: without activations for its vectors, then, the random state of
        dropout set back, to lead the gradients of the vectors on to the parameters (Gao et al. 2021, Scaling
        Deep Contrastive Learning Batch Size under Memory Limited Setup). Workers may have different numbers
        of batches, also none.

        Args:
            batches: this worker's.
            factors: for each part that is summed within batches, one over its count in the step.

        Returns:
            [parts] this worker's share of the mean of each part, in the order of the task's weights.
        """
        names = list(self.task.weights)
        dtype = next(iter(factors.values())).dtype if factors else torch.float64
        parts = {name: torch.zeros((), dtype=dtype, device=self.device) for name in names}
        kept: list[_Pass] = []
        gradients: Sequence[Tensor | None] = [None] * len(batches)
        if self.task.contrasts:
            kept = [self._forward(batch, progress, grad=len(batches) == 1) for batch in batches]
            means, gradients = self._contrast(kept, progress)
            parts |= {name: mean.to(dtype) for name, mean in means.items()}
        for place, (batch, gradient) in enumerate(zip(batches, gradients, strict=True)):
            if len(kept) == 1:
                output = kept[0].output
            else:
                if kept:
                    _set_random_state(kept[place].state, self.device)
                output = self._forward(batch, progress, grad=True).output
            roots: list[Tensor] = []
            seeds: list[Tensor | None] = []
            if gradient is not None:
                assert output.vectors is not None
                roots, seeds = [output.vectors], [gradient]
            if output.sums:
                summed = list(output.sums)
                means = torch.stack([output.sums[n].to(dtype) * factors[n] for n in summed])
                weights = torch.tensor([self.task.weights[n] for n in summed], dtype=dtype)
                loss = (means * weights.to(self.device, non_blocking=True)).sum()
                for name, mean in zip(summed, means.detach(), strict=True):
                    parts[name] = parts[name] + mean
                if loss.requires_grad:
                    roots.append(self.scaler.scale(loss))
                    seeds.append(None)
            if roots:
                torch.autograd.backward(roots, seeds)
        return torch.stack([parts[name] for name in names])

    def _contrast(
        self, passes: Sequence[_Pass], progress: Progress
    ) -> tuple[dict[str, Tensor], Sequence[Tensor]]:
        """This worker's share of the mean of each part, and the gradients of its vectors by pass."""
        vectors, keys = [], []
        for one in passes:
            assert one.output.vectors is not None
            assert one.output.keys is not None
            vectors.append(one.output.vectors.detach())
            keys.append(one.output.keys)
        if passes:
            leaf, own_keys = torch.cat(vectors), torch.cat(keys)
        else:
            dtype = next(self.model.parameters()).dtype
            leaf = torch.zeros(0, 0, dtype=dtype, device=self.device)
            own_keys = torch.zeros(0, 0, dtype=torch.int64, device=self.device)
        leaf.requires_grad_()
        candidates, own = gather_rows(leaf)
        all_keys = gather_rows(own_keys)[0]
        found = self.task.contrast(candidates[own], candidates, all_keys, own, progress)
        counts = sum_over_workers(torch.stack([count.double() for _, count in found.values()]))
        means = {
            name: total / count.clamp_min(1)
            for (name, (total, _)), count in zip(found.items(), counts, strict=True)
        }
        weighted = (self.task.weights[name] * mean for name, mean in means.items())
        # Every worker leads gradients back, also one without examples: the others wait for it.
        self.scaler.scale(sum(weighted, start=candidates.sum() * 0)).backward()
        gradients: Sequence[Tensor] = ()
        if passes:
            assert leaf.grad is not None
            gradients = leaf.grad.split([len(v) for v in vectors])
        return {name: mean.detach() for name, mean in means.items()}, gradients

    def _forward(self, batch: Any, progress: Progress, grad: bool) -> _Pass:
        state = _random_state(self.device) if self.task.contrasts else []
        with torch.set_grad_enabled(grad), autocast(self.device, self.precision):
            return _Pass(self.task.forward(self.model, to_device(batch, self.device), progress), state)


@dataclass(frozen=True, slots=True)
class _Pass:
    """What the model made of a batch, and the random state that it began with."""

    output: Output
    state: list[Tensor]


def _random_state(device: torch.device) -> list[Tensor]:
    on_gpu = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.get_rng_state(), *on_gpu]


def _set_random_state(state: Sequence[Tensor], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)
