"""A step over all its examples: however it is taken in parts, by however many workers, the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rayner.data.example_sets import ExampleSet
from rayner.runtime.training.gradients import Backward
from rayner.tasks.base import Progress
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer.task import StandardizerTask
from tests.runtime.training.several_workers import (
    assert_two_equal_one,
    losses,
    spawn,
    tiny_examples,
)
from tests.runtime.training.toy_task import largest_difference
from tests.tasks.standardizer.small_names import small_recipe

PROGRESS = Progress(0, 10, 0, 2)
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "loss",
    [{"mining": "hybrid"}, {"mining": "infonce"}, {"mining": "batch_all", "distance": "euclidean"}],
    ids=lambda loss: loss["mining"],
)
def test_two_workers_equal_one(tmp_path: Path, loss: dict[str, Any]) -> None:
    # A step of few strings: the shares differ, and one worker takes two passes where the other takes one.
    values = small_recipe(tmp_path, loss=loss, training={"tokens_per_forward": 60})
    examples = tiny_examples(values, tmp_path / "cache")
    assert_two_equal_one(tmp_path, values, examples)
    assert max(losses(tmp_path / "1")) > 0


@pytest.mark.parametrize("holder", [0, 1])
def test_a_worker_without_an_example_takes_part(tmp_path: Path, holder: int) -> None:
    values = small_recipe(tmp_path, loss={"mining": "infonce"})
    task, examples = made(values, tmp_path)
    whole = gradients(task, task.build().double(), [batch_of(task, examples, range(12))])
    spawn(share_of_one_worker, 2, tmp_path / "group", values, tmp_path, holder)
    assert largest_difference(whole, torch.load(tmp_path / f"{holder}.pt")) < 1e-12
    assert not torch.load(tmp_path / f"{1 - holder}.pt")


def share_of_one_worker(values: dict[str, Any], folder: Path, holder: int) -> None:
    task, examples = made(values, folder)
    rank = torch.distributed.get_rank()
    batches = [batch_of(task, examples, range(12))] if rank == holder else []
    torch.save(gradients(task, task.build().double(), batches), folder / f"{rank}.pt")


@pytest.mark.parametrize(
    "mining", ["batch_all", "batch_hard", "infonce", "multi_similarity", "marginal_likelihood"]
)
def test_two_passes_equal_one(tmp_path: Path, mining: str) -> None:
    groups = {"group_size": 3, "groups_per_step": 4, "neighbours": 2}
    task, examples = made(small_recipe(tmp_path, loss={"mining": mining}, groups=groups), tmp_path)
    whole = gradients(task, task.build().double(), [batch_of(task, examples, range(24))])
    parts = [range(9), range(9, 10), range(10, 24)]
    model = task.build().double()
    for way in (parts, parts[::-1]):
        found = gradients(task, model, [batch_of(task, examples, part) for part in way])
        assert largest_difference(whole, found) < 1e-12
    assert max(float(g.abs().max()) for g in whole.values()) > 1e-6


def test_two_passes_draw_the_same_dropout(tmp_path: Path) -> None:
    task, examples = made(small_recipe(tmp_path, model={"dropout": 0.3}), tmp_path)
    batches = [batch_of(task, examples, part) for part in (range(9), range(9, 24))]
    model = task.build().double().train()
    torch.manual_seed(3)
    found = gradients(task, model, batches)
    # By definition: both activations kept, one loss over both.
    model.zero_grad()
    torch.manual_seed(3)
    outputs = [task.forward(model, batch, PROGRESS) for batch in batches]
    vectors, keys = torch.cat([o.vectors for o in outputs]), torch.cat([o.keys for o in outputs])
    total, count = task.contrast(vectors, vectors, keys, torch.arange(len(keys)), PROGRESS)["contrast"]
    (total / count).backward()
    assert largest_difference(found, {n: p.grad.clone() for n, p in model.named_parameters()}) < 1e-12  # type: ignore[union-attr]


def test_a_step_without_a_pair_has_no_loss(tmp_path: Path) -> None:
    task, examples = made(small_recipe(tmp_path), tmp_path)
    found = gradients(task, task.build().double(), [batch_of(task, examples, range(1))])
    assert max(float(g.abs().max()) for g in found.values()) == 0


def made(values: dict[str, Any], folder: Path) -> tuple[StandardizerTask, ExampleSet]:
    recipe = parse_recipe(values, "recipe")
    task = StandardizerTask(recipe)  # type: ignore[arg-type]
    torch.manual_seed(0)
    model = task.build()
    task.build = lambda: _copy(model)  # type: ignore[method-assign]
    return task, ExampleSet(tiny_examples(values, folder / "cache"))


def _copy(model: torch.nn.Module) -> Any:
    import copy

    return copy.deepcopy(model)


def batch_of(task: StandardizerTask, examples: ExampleSet, numbers: range) -> Any:
    return task.collate(examples.fetch(list(numbers)), [(1, 0, number) for number in numbers])


def gradients(task: StandardizerTask, model: Any, batches: list[Any]) -> dict[str, torch.Tensor]:
    model.zero_grad()
    scaler = torch.amp.GradScaler("cpu", enabled=False)  # type: ignore[attr-defined]
    Backward(task, model, scaler, "float32", CPU)(batches, PROGRESS, {})
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
