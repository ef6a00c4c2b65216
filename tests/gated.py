"""The toy task, with steps that wait until a test lets them go on: what is killed is never over before."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from torch import nn

from rayner.tasks.base import Output, Progress
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.registry import Task
from tests.toy import TOY, ToyBatch, ToyRecipe, ToyTask


class GatedRecipe(ToyRecipe):
    """`gate` is a folder, and `gate_step` the first step that waits until a file of the training's
    `head_learning_rate` is there; without a gate none waits."""

    task: Literal["gated"]  # type: ignore[assignment]
    gate: str = ""
    gate_step: int = 0


class GatedTask(ToyTask):
    def forward(self, model: nn.Module, batch: ToyBatch, progress: Progress) -> Output:
        recipe = self.recipe
        assert isinstance(recipe, GatedRecipe)
        if recipe.gate and progress.step >= recipe.gate_step:
            while not _opened(Path(recipe.gate), recipe.training.head_learning_rate).exists():
                time.sleep(0.02)
        return super().forward(model, batch, progress)


def open_gate(gate: Path, *rates: float) -> None:
    """Let the trainings with these learning rates go on."""
    gate.mkdir(parents=True, exist_ok=True)
    for rate in rates:
        _opened(gate, rate).touch()


def _opened(gate: Path, rate: float) -> Path:
    return gate / repr(float(rate))


GATED = Task("gated", GatedRecipe, GatedTask, Documents(), stage=TOY.stage)
