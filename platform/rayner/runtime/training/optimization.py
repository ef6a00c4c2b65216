"""The optimizer, its learning rate, and the moving average of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from torch import nn

from rayner.config import TrainingSettings
from rayner.models.encoder import Encoder


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW; parameters of one dimension, as biases and norms have, do not decay, nor do those that a module
    names in `without_decay`, as thresholds, which are biases by type.

    What is within an `Encoder` learns at `learning_rate`, all else at `head_learning_rate`. With
    `layer_decay` lower layers of an encoder have lower rates; the first group has the highest.
    """
    depths = {p: d for m in model.modules() if isinstance(m, Encoder) for p, d in m.depths().items()}
    kept = {getattr(m, name, None) for m in model.modules() for name in getattr(m, "without_decay", ())}
    factors = {p: settings.layer_decay ** depths.get(p, 0) for p in model.parameters()}
    groups = []
    for is_head, decays in product((False, True), (False, True)):
        chosen = [
            p
            for p in model.parameters()
            if p.requires_grad and (p not in depths) == is_head and (p.ndim > 1 and p not in kept) == decays
        ]
        peak = settings.head_learning_rate if is_head else settings.learning_rate
        decay = settings.weight_decay if decays else 0.0
        for factor in sorted({factors[p] for p in chosen}, reverse=True):
            alike = [p for p in chosen if factors[p] == factor]
            groups.append({"params": alike, "lr": 0.0, "peak": peak * factor, "weight_decay": decay})
    return torch.optim.AdamW(groups, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, step: int, steps: int, warmup: float) -> float:
    """Set the learning rates of a step: up in a line over the first `warmup` of the steps, then down to 0.

    Args:
        step: from 0.

    Returns:
        The rate of the first group.
    """
    rising = (step + 1) / max(1.0, warmup * steps)
    falling = (steps - step) / max(1.0, steps - warmup * steps)
    factor = min(rising, falling, 1.0)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor
    return optimizer.param_groups[0]["lr"]


def seed_step(seed: int, step: int, rank: int) -> None:
    """Set torch's random state from the step and the worker.

    So a resumed run draws what an undisturbed one does with no random state stored, and each worker has
    dropout masks of its own; a run with another number of workers has others.
    """
    torch.manual_seed(int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1))


def checkpoint_gradients(model: nn.Module) -> None:
    """Have every encoder compute its activations again in the backward pass instead of keeping them.

    Raises:
        InputError: an encoder that cannot.
    """
    for module in model.modules():
        if isinstance(module, Encoder):
            module.enable_gradient_checkpointing()


def freeze_word_embeddings(model: nn.Module) -> None:
    """Have the embeddings of sub-words of every encoder stay as they are."""
    for module in model.modules():
        if isinstance(module, Encoder):
            module.model.get_input_embeddings().requires_grad_(False)


class Average:
    """An exponential moving average of the trained parameters.

    Its decay after t updates is min(`decay`, (1 + t) / (10 + t)), so that the random start is soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self._live = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.weights = {name: p.detach().clone() for name, p in self._live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Move towards the parameters as they are now."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(  # pyright: ignore[reportPrivateImportUsage]
            list(self.weights.values()), list(self._live.values()), 1 - decay
        )
        self.updates += 1

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Within it, the model has the averaged weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, parameter in self._live.items():
            parameter.data, self.weights[name] = self.weights[name], parameter.data
