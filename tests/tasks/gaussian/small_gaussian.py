"""A small Gaussian pre-training, and examples of types that it never learned."""

from __future__ import annotations

from typing import Any

import torch

from rayner.data.schema import Document
from rayner.models.encoder import load_tokenizer
from rayner.tasks.base import Progress
from rayner.tasks.gaussian.task import GaussianTask
from rayner.tasks.registry import parse_recipe
from tests.tasks.small import BASE, built, collated

TOKENIZER = load_tokenizer("random:32x2")
PROGRESS = Progress(0, 10, 0, 1)
SUPPORT = ("[DISH:Paella] arrived in [VESSEL:a pan] .", "Nobody ate [DISH:soup] twice .")


def gaussian(**changes: Any) -> GaussianTask:
    values = {**BASE, **changes, "task": "gaussian", "model": {"dropout": 0, "embedding_size": 16}}
    return GaussianTask(parse_recipe(values, "test"), TOKENIZER)


def learned(task: GaussianTask, documents: list[Document], steps: int) -> Any:
    model, batch = built(task).train(), collated(task, documents)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0)
    for _ in range(steps):
        optimizer.zero_grad()
        output = task.forward(model, batch, PROGRESS)
        assert output.vectors is not None
        assert output.keys is not None
        own = torch.arange(len(output.vectors))
        total, count = task.contrast(output.vectors, output.vectors, output.keys, own, PROGRESS)["contrast"]
        (total / count).backward()
        optimizer.step()
    return model.eval()
