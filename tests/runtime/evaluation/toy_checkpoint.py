"""A checkpoint of the toy task, made without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe, train_task


def checkpoint_in(folder: Path, bias: float) -> Path:
    """The larger the bias, the more words are mentions."""
    values = {
        "task": "toy",
        "encoder": "random:16x1",
        "types": [{"name": "A"}],
        "corpus": {"train": ["nowhere"]},
    }
    recipe = parse_recipe(values, "recipe")
    task = train_task(recipe)
    model: Any = task.build()
    torch.nn.init.constant_(model.head.bias, bias)
    save_checkpoint(folder / "checkpoint", task, model, {})
    return folder / "checkpoint"
