"""A task small enough to train in a blink: a regression over bags of tokens, with two parts of the loss."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from safetensors.torch import load_file, save_model
from torch import Tensor, nn

from rayner.config import TaggerRecipe
from rayner.data import batches
from rayner.data.plans import Plan
from rayner.runtime.worker import Run
from rayner.tasks.base import Counts, Progress, Seed, Size, Sums

VOCABULARY = 50


@dataclass(frozen=True, slots=True)
class ToyBatch:
    ids: Tensor
    mask: Tensor
    target: Tensor


class ToyModel(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.norm = nn.LayerNorm(8)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(8, 1)
        self.unused = nn.Linear(3, 3)
        self.register_buffer("shift", torch.zeros(()))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        weights = mask.unsqueeze(-1).to(self.head.weight.dtype)
        pooled = (self.embedding(ids) * weights).sum(1) / weights.sum(1)
        return self.head(self.dropout(self.norm(pooled)))[:, 0]


class ToyTask:
    weights: Mapping[str, float] = {"square": 1.0, "large": 0.5}
    metric = "f1"
    tokens_per_step = 60

    def __init__(self, dropout: float = 0.0, double: bool = False, seconds_per_batch: float = 0.0) -> None:
        self.dropout, self.double, self.seconds_per_batch = dropout, double, seconds_per_batch
        self.fail_at: int | None = None

    def items(self, split: str) -> list[dict[str, Any]]:
        return make_items(40 if split == "train" else 11, seed=len(split))

    def settings_of_examples(self) -> Mapping[str, Any]:
        return {}

    def examples(self, items: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield from items

    def length_of(self, example: Mapping[str, Any]) -> int:
        return len(example["ids"])

    def plan(self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int) -> Plan:
        return batches.plan(lengths, None, 1, epoch, self.tokens_per_step)

    def group_of(self, example: Mapping[str, Any]) -> str | None:
        return None

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> ToyBatch:
        time.sleep(self.seconds_per_batch)
        width = max(len(e["ids"]) for e in examples)
        ids = torch.zeros(len(examples), width, dtype=torch.int64)
        for row, example in enumerate(examples):
            ids[row, : len(example["ids"])] = torch.as_tensor(np.asarray(example["ids"]))
        lengths = torch.tensor([len(e["ids"]) for e in examples])
        target = torch.tensor([e["target"] for e in examples], dtype=torch.float64)
        return ToyBatch(ids, torch.arange(width) < lengths[:, None], target)

    def counts(self, batch: ToyBatch, progress: Progress) -> Counts:
        return {"square": float(len(batch.target)), "large": float((batch.target > 0).sum())}

    def size_of(self, batch: ToyBatch) -> Size:
        return Size(int(batch.mask.sum()) // 2, int(batch.mask.sum()), batch.mask.numel())

    def build(self) -> nn.Module:
        model = ToyModel(self.dropout)
        return model.double() if self.double else model

    def head_parameters(self, model: nn.Module) -> Iterable[nn.Parameter]:
        assert isinstance(model, ToyModel)
        return model.head.parameters()

    def loss(self, model: nn.Module, batch: ToyBatch, progress: Progress) -> Sums:
        predicted = model(batch.ids, batch.mask)
        predicted = predicted if self.double else predicted.float()
        errors = (predicted - batch.target.to(predicted.dtype)) ** 2
        if progress.step == self.fail_at:
            errors = errors * float("nan")
        return {"square": errors.sum(), "large": errors[batch.target > 0].sum()}

    def fit(self, model: nn.Module, dev: Sequence[dict[str, Any]]) -> None:
        model.shift.fill_(float(np.mean([item["target"] for item in dev])))  # type: ignore[operator]

    def predictor(self, model: nn.Module, options: object = None) -> ToyPredictor:
        return ToyPredictor(self, model)

    def save(self, model: nn.Module, folder: Path) -> None:
        save_model(model, str(folder / "model.safetensors"))

    def load(self, folder: Path) -> nn.Module:
        model = self.build()
        model.load_state_dict(load_file(folder / "model.safetensors"))
        return model

    def inspect(self, model: nn.Module, dev: Sequence[dict[str, Any]]) -> Mapping[str, pa.Table]:
        return {"targets": pa.table({"target": [item["target"] for item in dev]})}


class ToyPredictor:
    forward_cost = 0

    def __init__(self, task: ToyTask, model: nn.Module) -> None:
        self.task, self.model = task, model

    def prepare(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        return [item]

    def length_of(self, window: dict[str, Any]) -> int:
        return len(window["ids"])

    def forward(self, windows: Sequence[dict[str, Any]]) -> list[float]:
        batch = self.task.collate(windows, [])
        return self.model(batch.ids, batch.mask).tolist()

    def finish(self, item: dict[str, Any], windows: Sequence[Any], scores: Sequence[float]) -> float:
        return scores[0]

    def evaluate(self, predicted: Sequence[float], gold: Sequence[dict[str, Any]]) -> dict[str, Any]:
        errors = np.array(predicted) - np.array([item["target"] for item in gold])
        return {"f1": float(1 / (1 + np.mean(errors**2)))}


class ToyExamples:
    """Examples in memory."""

    def __init__(self, items: Sequence[dict[str, Any]]) -> None:
        self.items = items
        self.lengths = np.array([len(item["ids"]) for item in items])
        self.groups = None
        self.fetched: list[list[int]] = []

    def fetch(self, indices: np.ndarray) -> list[dict[str, Any]]:
        self.fetched.append([int(i) for i in indices])
        return [self.items[i] for i in indices]


def make_items(count: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    worth = np.sin(np.arange(VOCABULARY))
    rows = [rng.integers(1, VOCABULARY, rng.integers(2, 9)) for _ in range(count)]
    return [{"number": i, "ids": row, "target": float(worth[row].mean())} for i, row in enumerate(rows)]


def toy_recipe(**training: Any) -> TaggerRecipe:
    settings = {"epochs": 3, "tokens_per_step": 60, "log_every": 1, "learning_rate": 0.01} | training
    return TaggerRecipe.model_validate(
        {"task": "tagger", "corpus": {"train": ["toy"]}, "types": [{"name": "T"}], "training": settings}
    )


def toy_run(out: Path, task: ToyTask | None = None, **training: Any) -> Run:
    out.mkdir(parents=True, exist_ok=True)
    task = task or ToyTask()
    examples = ToyExamples(task.items("train"))
    task.tokens_per_step = training.get("tokens_per_step", task.tokens_per_step)
    return Run(toy_recipe(**training), task, examples, "toy", task.items("dev"), out, torch.device("cpu"))


def weights_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def largest_difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


if __name__ == "__main__":
    # A run to be killed: `python -m tests.runtime.toy_task OUT`.
    import sys

    from rayner.runtime.worker import work

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    work(
        toy_run(
            Path(sys.argv[1]), ToyTask(dropout=0.2, seconds_per_batch=0.05), checkpoint_every=2, average=0.9
        )
    )
