"""Several workers are one: the same parameters in float64, whatever each of them has to do."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from rayner.errors import StorageError
from rayner.runtime.training import distributed, steps
from rayner.runtime.training.distributed import same_on_all
from rayner.runtime.training.steps import epoch_steps
from rayner.tasks.base import Size
from tests.runtime.training.several_workers import (
    assert_two_equal_one,
    lose_the_group,
    losses,
    scores,
    spawn,
    tiny_examples,
    tiny_recipe,
    train_toy,
)
from tests.runtime.training.toy_task import LoopTask, ToyExamples, largest_difference, weights_of


@pytest.mark.parametrize("normalization", ["step", "corpus"])
def test_two_workers_equal_one_on_the_toy_task(tmp_path: Path, normalization: str) -> None:
    # A budget below the longest examples' lengths: some steps hold one example, so one worker has none.
    settings = {"tokens_per_step": 12, "epochs": 2, "normalization": normalization, "average": 0.9}
    for workers in (1, 2):
        out = tmp_path / str(workers)
        spawn(train_toy, workers, out, out, None, settings)
    for folder in ("last", "best"):
        one, two = (weights_of(tmp_path / str(workers) / folder) for workers in (1, 2))
        assert largest_difference(one, two) < 1e-9
    assert losses(tmp_path / "1") == pytest.approx(losses(tmp_path / "2"), abs=1e-9)
    assert scores(tmp_path / "1") == pytest.approx(scores(tmp_path / "2"), abs=1e-9)


@pytest.mark.parametrize("task", ["recognizer", "tagger"])
def test_two_workers_equal_one(tmp_path: Path, task: str) -> None:
    values = tiny_recipe(tmp_path, task, normalization="step", tokens_per_forward=40, epochs=1)
    examples = tiny_examples(values, tmp_path / "cache")
    assert_two_equal_one(tmp_path, values, examples)


def test_a_run_of_two_workers_goes_on_with_one(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 1, "checkpoint_every": 1}
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    spawn(train_toy, 1, whole, whole, None, settings)
    with pytest.raises(Exception, match="step 4: the loss"):
        spawn(train_toy, 2, cut, cut, 3, settings)
    assert json.loads((cut / "last/state/state.json").read_text())["step"] == 3
    spawn(train_toy, 1, cut, cut, None, settings)
    assert largest_difference(weights_of(whole / "last"), weights_of(cut / "last")) < 1e-9


def sum_tables(sent: Path) -> None:
    """Sum gradients of tables of which few rows, one worker's, many and none are filled."""
    own, rows = dist.get_rank(), distributed.TABLE_ROWS
    gradients: list[torch.Tensor | None] = [torch.zeros(rows, 3) for _ in range(4)]
    few, of_one, many, _ = gradients
    few[[5, 7 + own]] = 1.0 + own
    few[rows - 1, 2] = float("nan")
    many[own::2] = 1.0 + own
    of_one[11] = 4.0
    if own:
        gradients[1] = None
    tables = [torch.nn.Parameter(torch.zeros(rows, 3)) for _ in gradients]
    for table, gradient in zip(tables, gradients, strict=True):
        table.grad = gradient
    expected = [torch.zeros(rows, 3) if g is None else g.clone() for g in gradients]
    for gradient in expected:
        dist.all_reduce(gradient)
    sizes: list[int] = []
    all_reduce = dist.all_reduce

    def counting(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        sizes.append(tensor.numel())
        return all_reduce(tensor, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "all_reduce", counting)
        distributed.sum_gradients(tables)
    for table, gradient in zip(tables, expected, strict=True):
        torch.testing.assert_close(table.grad, gradient, rtol=0, atol=0, equal_nan=True)
    if not own:
        sent.write_text(json.dumps(sizes))


def test_of_a_table_of_words_only_the_rows_with_a_gradient_travel(tmp_path: Path) -> None:
    spawn(sum_tables, 2, tmp_path, tmp_path / "sent.json")
    rows = distributed.TABLE_ROWS
    masks, table = [rows] * 4, 3 * rows
    assert sorted(json.loads((tmp_path / "sent.json").read_text())) == sorted([4, *masks, 12, 3, table])


def sum_as_with_nccl(out: Path) -> None:
    """Sum gradients where the process group is not of the hosts, one of a single worker, one of none."""
    parameters = [torch.nn.Parameter(torch.zeros(3)) for _ in range(3)]
    parameters[0].grad = torch.full((3,), 1.0 + dist.get_rank())
    if dist.get_rank():
        parameters[1].grad = torch.ones(3)
    with pytest.MonkeyPatch.context() as patch, distributed.same_workers(timedelta(seconds=77)):
        patch.setattr(dist, "get_backend", lambda *_: "nccl")
        distributed.sum_gradients(parameters)
        hosts = distributed._host_group()
        assert hosts is not None
        waits = hosts._get_backend(torch.device("cpu")).options._timeout
    sums = [None if p.grad is None else p.grad.tolist() for p in parameters]
    (out / str(dist.get_rank())).write_text(json.dumps([sums, waits.total_seconds()]))


def test_with_nccl_hosts_have_a_group_of_their_own_that_waits_no_longer(tmp_path: Path) -> None:
    spawn(sum_as_with_nccl, 2, tmp_path, tmp_path)
    for rank in range(2):
        assert json.loads((tmp_path / str(rank)).read_text()) == [[[3.0] * 3, [1.0] * 3, None], 77.0]


def test_rows_are_looked_for_in_tables_on_a_cpu_alone() -> None:
    rows = distributed.TABLE_ROWS
    assert distributed.may_be_sparse(torch.empty(rows, 3))
    assert not distributed.may_be_sparse(torch.empty(rows - 1, 3))
    assert not distributed.may_be_sparse(torch.empty(rows, 3, device="meta"))


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_each_step_holds_the_same_examples_whatever_the_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    task = LoopTask()
    examples = ToyExamples(task)
    plan = task.plan(examples.lengths, examples.groups, 1)
    shares: list[list[int]] = [[] for _ in plan]
    monkeypatch.setattr(steps, "world_size", lambda: workers)
    monkeypatch.setattr(task, "collate", lambda rows, seeds: [int(row["number"]) for row in rows])
    monkeypatch.setattr(task, "size_of", lambda batch: Size(len(batch), 0, 0))
    for rank in range(workers):
        monkeypatch.setattr(steps, "rank", lambda rank=rank: rank)
        with epoch_steps(task, examples, 1, plan, pin=False) as made:
            for share, step in zip(shares, made, strict=True):
                share += [number for batch in step.batches for number in batch]
    assert [sorted(share) for share in shares] == [sorted(step.tolist()) for step in plan]


def test_a_worker_whose_group_is_gone_takes_no_step_alone(tmp_path: Path) -> None:
    # In this step both workers have examples: a worker without any computes no loss to lose its group in.
    spawn(lose_the_group, 2, tmp_path / "group", tmp_path / "run", 3)
    assert len(list(tmp_path.glob("raised-*"))) == 2
    state = json.loads((tmp_path / "run" / "last" / "state" / "state.json").read_text())
    assert state["step"] == 3


def look(folder: Path) -> None:
    """Worker 1 sees the old state twice, then what worker 0 sees; and at another place always the old."""
    distributed.PAUSE, distributed.ATTEMPTS = 0.0, 3
    number = dist.get_rank()
    states = iter(["old", "old", "new"] if number else ["new"] * 3)
    same_on_all(lambda: next(states), folder)
    with pytest.raises(StorageError, match="worker 1 of 2 sees old where worker 0 sees new"):
        same_on_all(lambda: "old" if number else "new", folder)
    (folder / f"looked-{number}").touch()


def test_workers_wait_until_they_see_the_same(tmp_path: Path) -> None:
    spawn(look, 2, tmp_path / "group", tmp_path)
    assert len(list(tmp_path.glob("looked-*"))) == 2
