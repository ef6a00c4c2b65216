"""What a recipe's `scaling` says reaches Ray Train and torch, without a cluster."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import torch
import torch.distributed as dist
from ray.train import torch as ray_torch
from ray.train.torch.config import _setup_torch_process_group

from rayner.errors import RaynerError
from rayner.runtime.training import ray_workers
from rayner.runtime.training.ray_workers import work_on_cluster
from rayner.runtime.training.train_call import Launch
from rayner.runtime.training.training_progress import Lines
from rayner.tasks.registry import parse_recipe, train_task
from tests.runtime.training.several_workers import tiny_recipe

SCALING = {
    "max_failures": 5,
    "max_preemption_failures": 7,
    "collective_timeout_seconds": 11,
    "cpus_per_worker": 2,
    "memory_per_worker": 0.5,
}


TRACKING = "https://ada:SECRET@host"


@dataclass(repr=False)
class Reference:
    """As Ray's: what shows it shows no value."""

    value: Any


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What Ray's trainer is made with for a recipe with `SCALING`."""
    seen: dict[str, Any] = {}

    class Trainer:
        def __init__(self, loop: Any, **settings: Any) -> None:
            seen.update(settings, loop=loop)

        def fit(self) -> Any:
            raise RaynerError("as far as this test goes")

    monkeypatch.setattr(ray_torch, "TorchTrainer", Trainer)
    monkeypatch.setattr(ray_workers, "ensure_ray", lambda: None)
    monkeypatch.setattr(ray_workers, "this_node", lambda: "here")
    monkeypatch.setattr(ray, "put", Reference)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", TRACKING)
    recipe = parse_recipe(tiny_recipe(tmp_path, "tagger") | {"scaling": SCALING}, "recipe")
    examples: Any = SimpleNamespace(folder=tmp_path)
    with pytest.raises(RaynerError, match="as far as"):
        work_on_cluster(Launch(train_task(recipe), tmp_path / "run", 3, Lines()), examples, [])
    return seen


def test_failures_and_resources_reach_ray_train(given: dict[str, Any]) -> None:
    failures, scaling = given["run_config"].failure_config, given["scaling_config"]
    assert (failures.max_failures, failures.max_preemption_failures) == (5, 7)
    assert scaling.num_workers == 3
    assert scaling.resources_per_worker == {"CPU": 2, "memory": 2**29}


def test_the_timeout_reaches_the_process_group(given: dict[str, Any], tmp_path: Path) -> None:
    """By Ray's own function, in which each worker joins the group."""
    config = given["torch_config"]
    _setup_torch_process_group(config.backend, 0, 1, f"file://{tmp_path}/meeting", config.timeout_s)
    try:
        group = dist.group.WORLD
        assert group is not None
        found = group._get_backend(torch.device("cpu")).options._timeout
        assert found == timedelta(seconds=SCALING["collective_timeout_seconds"])
    finally:
        dist.destroy_process_group()


def test_what_may_hold_a_password_reaches_the_workers_unseen(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = given["train_loop_config"]
    # Ray's dashboard shows it.
    assert "SECRET" not in repr(config)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.setattr(ray, "get", lambda reference, timeout: reference.value)
    monkeypatch.setattr(ray_workers, "same_workers", nullcontext)
    monkeypatch.setattr(ray_workers, "_run_of", lambda config: None)
    monkeypatch.setattr(ray_workers, "work", lambda run: os.environ["MLFLOW_TRACKING_URI"])
    assert given["loop"](config) == TRACKING
