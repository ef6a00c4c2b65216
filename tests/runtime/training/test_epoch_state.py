"""What a task makes at the start of an epoch: used by its plan and its loss, stored, and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rayner.runtime.training import loop
from rayner.runtime.training.loop import work
from tests.killed_training import killed_at
from tests.runtime.training.several_workers import losses, spawn
from tests.runtime.training.toy_task import HardFirstTask, largest_difference, toy_run, weights_of

SETTINGS: dict[str, Any] = {
    "checkpoint_every": 2,
    "average": 0.9,
    "tokens_per_step": 30,
    "learning_rate": 0.1,
}


def train(out: Path, double: bool = False) -> HardFirstTask:
    task = HardFirstTask(double=double)
    work(toy_run(out, task, **SETTINGS))
    return task


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """A run that was killed in the middle of its second epoch, at a step after its last checkpoint."""
    whole = train(tmp_path / "whole")
    assert whole.prepared == [0, 1, 2]
    steps = len(losses(tmp_path / "whole")) // 3
    assert steps >= 6
    with killed_at(steps + steps // 2 + 1):
        train(tmp_path / "cut")
    return tmp_path / "cut"


def test_the_state_of_the_epoch_is_resumed(cut: Path, tmp_path: Path) -> None:
    assert load_file(cut / "last/state/epoch.safetensors").keys() == {"wrong", "mean"}
    resumed = train(cut)
    assert resumed.prepared == [2]
    assert losses(cut) == losses(tmp_path / "whole")
    for part in ("last", "best"):
        assert largest_difference(weights_of(tmp_path / "whole" / part), weights_of(cut / part)) == 0.0


def test_a_state_made_anew_would_be_another(
    cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes the test above fail where the state is not resumed."""
    stored = load_file(cut / "last/state/epoch.safetensors")
    task = HardFirstTask()
    run = toy_run(cut, task, **SETTINGS)
    model = task.load(cut / "last").eval()
    with torch.no_grad():
        anew = task.prepare_epoch(model, run.examples, 1)
    plans = [
        [step.tolist() for step in task.plan(run.examples.lengths, None, 1, state)]
        for state in (stored, anew)
    ]
    assert plans[0] != plans[1]
    monkeypatch.setattr(loop, "load_epoch_state", lambda out, device: anew)
    train(cut)
    assert largest_difference(weights_of(tmp_path / "whole/last"), weights_of(cut / "last")) > 1e-6


def test_two_workers_with_a_state_equal_one(tmp_path: Path) -> None:
    for workers in (1, 2):
        spawn(train_exactly, workers, tmp_path / f"meeting{workers}", tmp_path / str(workers))
    one, two = tmp_path / "1", tmp_path / "2"
    assert largest_difference(weights_of(one / "last"), weights_of(two / "last")) < 1e-9
    assert losses(one) == pytest.approx(losses(two), abs=1e-9)


def train_exactly(out: Path) -> None:
    train(out, double=True)
