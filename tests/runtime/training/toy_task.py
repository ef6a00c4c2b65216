"""Runs of the toy task within the loop alone."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from rayner.data.plans import Plan
from rayner.data.schema import Document, Mention
from rayner.runtime.training.loop import Run, work
from rayner.tasks.base import Examples, Output, Progress, State
from tests.toy import ToyBatch, ToyModel, ToyRecipe, ToyTask

WORDS = 50


class LoopTask(ToyTask):
    """The toy task over documents in memory, in double precision or failing as a test wants it."""

    def __init__(self, recipe: ToyRecipe | None = None, double: bool = False) -> None:
        super().__init__(recipe or toy_recipe())
        self.double = double
        self.fail_at: int | None = None

    def items(self, split: str) -> list[Document]:
        return make_items(40 if split == "train" else 11, seed=len(split))

    def build(self) -> nn.Module:
        model = ToyModel(self.recipe.dropout)
        return model.double() if self.double else model

    def forward(self, model: nn.Module, batch: ToyBatch, progress: Progress) -> Output:
        output = super().forward(model, batch, progress)
        if progress.step == self.fail_at:
            output = Output({name: total * float("nan") for name, total in output.sums.items()})
        return output


class HardFirstTask(LoopTask):
    """Takes the steps of an epoch by how wrong the model is about their examples when the epoch begins, the
    worst first, and counts each word of an example by the same: its state is used by `plan` and `forward`."""

    def __init__(self, recipe: ToyRecipe | None = None, double: bool = False) -> None:
        super().__init__(recipe, double)
        self.prepared: list[int] = []

    def prepare_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> State:
        self.prepared.append(epoch)
        batch = self.collate(examples.fetch(np.arange(len(examples.lengths))), [])
        scores = model(batch.ids)
        losses = F.binary_cross_entropy_with_logits(scores, batch.gold.to(scores.dtype), reduction="none")
        return {"wrong": (losses * batch.mask).sum(1), "mean": losses[batch.mask].mean()}

    def plan(
        self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int, state: State | None = None
    ) -> Plan:
        steps = list(super().plan(lengths, groups, epoch))
        if state is not None:
            wrong = state["wrong"].cpu().numpy()
            steps.sort(key=lambda indices: -float(wrong[indices].mean()))
        return Plan(np.concatenate(steps), np.cumsum([0, *map(len, steps)]))

    def forward(self, model: nn.Module, batch: ToyBatch, progress: Progress) -> Output:
        output = super().forward(model, batch, progress)
        assert progress.state is not None
        return Output({name: total * progress.state["mean"] for name, total in output.sums.items()})


class ToyExamples:
    """Examples in memory."""

    def __init__(self, task: LoopTask) -> None:
        self.rows = list(task.examples(task.items("train")))
        for number, row in enumerate(self.rows):
            row["number"] = number
        self.lengths = np.array([row["length"] for row in self.rows])
        self.groups = None
        self.fetched: list[list[int]] = []

    def fetch(self, indices: np.ndarray) -> list[dict[str, Any]]:
        self.fetched.append([int(i) for i in indices])
        return [self.rows[i] for i in indices]


def make_items(count: int, seed: int) -> list[Document]:
    rng = np.random.default_rng(seed)
    documents = []
    for number in range(count):
        words = [f"w{word}" for word in rng.integers(0, WORDS, rng.integers(2, 9))]
        text, starts = " ".join(words), np.cumsum([0, *(len(word) + 1 for word in words)])
        mentions = tuple(
            Mention(int(start), int(start) + len(word), "T")
            for start, word in zip(starts, words, strict=False)
            if np.sin(int(word[1:])) > 0
        )
        documents.append(Document(f"{seed}-{number}", text, mentions))
    return documents


def toy_recipe(dropout: float = 0.0, **training: Any) -> ToyRecipe:
    settings = {"epochs": 3, "tokens_per_step": 60, "log_every": 1, "learning_rate": 0.01} | training
    # All parameters are outside of encoders.
    settings["head_learning_rate"] = settings["learning_rate"]
    return ToyRecipe.model_validate(
        {
            "task": "toy",
            "corpus": {"train": ["toy"], "dev": ["toy"]},
            "types": [{"name": "T"}],
            "dropout": dropout,
            "training": settings,
        }
    )


def toy_run(out: Path, task: LoopTask | None = None, **training: Any) -> Run:
    out.mkdir(parents=True, exist_ok=True)
    dropout = 0.0 if task is None else task.recipe.dropout
    recipe = toy_recipe(dropout, **training)
    task = task or LoopTask(recipe)
    task.recipe = recipe
    return Run(task, ToyExamples(task), "toy", task.items("dev"), out, torch.device("cpu"))


def weights_of(folder: Path) -> dict[str, Tensor]:
    """All weights of a checkpoint, by folder and name."""
    return {
        str(path.parent.relative_to(folder) / name): weights
        for path in folder.rglob("model.safetensors")
        for name, weights in load_file(path).items()
    }


def largest_difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


STEP_THAT_WAITS = 7


class WaitingTask(LoopTask):
    """A step of it waits, for good, where there is no file `gate`."""

    def __init__(self, recipe: ToyRecipe, gate: Path) -> None:
        super().__init__(recipe)
        self._gate = gate

    def forward(self, model: nn.Module, batch: ToyBatch, progress: Progress) -> Output:
        while progress.step == STEP_THAT_WAITS and not self._gate.exists():
            time.sleep(0.02)
        return super().forward(model, batch, progress)


def run_through(out: Path, gate: Path) -> None:
    """A run to be killed."""
    task = WaitingTask(toy_recipe(0.2), gate)
    work(toy_run(out, task, checkpoint_every=2, average=0.9))


if __name__ == "__main__":
    # `python -m tests.runtime.training.toy_task OUT GATE`.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    run_through(Path(sys.argv[1]), Path(sys.argv[2]))
