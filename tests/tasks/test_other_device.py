"""Every task learns, goes on and answers on a device that keeps its tensors apart from those of the CPU."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from rayner.runtime.training import run_state
from rayner.runtime.training import train as training
from rayner.runtime.training.train import train
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe
from tests import other_device
from tests.killed_training import killed_at
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.tasks.small_recipes import SMALL

DEVICE = f"{other_device.NAME}:0"
NEAR = 1e-4
"""A tenth of how far a step moves a weight: sums in another order make less."""
WITHOUT_GRADIENT = "mean.bias"
"""The Gaussian loss is that of differences of means, so that rounding alone moves what is added to all."""


class Compared(NamedTuple):
    """How a run on the device differs from one on the CPU."""

    weights: float
    here: list[Any]
    """Answers of the CPU."""
    there: list[Any]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compared | str]:
    # In a process of its own: torch keeps a device that it was told of for good.
    folder = tmp_path_factory.mktemp("devices")
    with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
        return pool.submit(on_both, folder, sorted(SMALL)).result()


@pytest.mark.parametrize("name", sorted(SMALL))
def test_learns_and_answers_as_on_the_cpu(found: dict[str, Compared | str], name: str) -> None:
    compared = found[name]
    assert isinstance(compared, Compared), compared
    assert compared.weights < NEAR
    assert compared.there == compared.here
    assert compared.here


def test_tensors_of_two_devices_do_not_meet() -> None:
    with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
        refused = pool.submit(refusals).result()
    assert refused == "aten::add: tensors on two devices: other [2], cpu [2]"


def on_both(folder: Path, names: Iterable[str]) -> dict[str, Compared | str]:
    other_device.register()
    compared: dict[str, Compared | str] = {}
    for name in names:
        try:
            compared[name] = _compared(folder / name, SMALL[name])
        except Exception:
            compared[name] = traceback.format_exc()
    return compared


def refusals() -> str:
    other_device.register()
    there = torch.ones(2, device=DEVICE)
    assert (there + there).tolist() == [2.0, 2.0]
    assert (there + torch.tensor(1.0)).tolist() == [2.0, 2.0]
    assert there[torch.tensor([1])].tolist() == [1.0]
    with pytest.raises(RuntimeError, match="index: tensors on two devices"):
        torch.ones(2)[torch.tensor([1], device=DEVICE)]
    with pytest.raises(TypeError, match="copy it to the CPU first"):
        there.numpy()
    with pytest.raises(RuntimeError, match="two devices") as refused:
        there + torch.ones(2)
    return str(refused.value)


def _compared(folder: Path, values: Any) -> Compared:
    """A run that was killed on the device and went on there, beside one of the CPU that was not."""
    folder.mkdir(parents=True)
    made = values(folder)
    training_settings = {**made["training"], "checkpoint_every": 2}
    if "tokens_per_step" in training_settings:
        training_settings["tokens_per_step"] = 60
    recipe = parse_recipe({**made, "training": training_settings}, "recipe")
    train(recipe, folder / "cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "default_device", lambda: DEVICE)
        patch.setattr(run_state, "load_file", _load_file)
        with killed_at(3):
            train(recipe, folder / "device")
        train(recipe, folder / "device")
    parts = [[_weights(folder / run / part) for run in ("cpu", "device")] for part in ("last", "best")]
    weights = max(largest_difference(*pair) for pair in parts)
    return Compared(weights, *(_answers(folder / "cpu", device) for device in ("cpu", DEVICE)))


def _weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    return {name: value for name, value in weights_of(checkpoint).items() if name != WITHOUT_GRADIENT}


def _answers(run: Path, device: str) -> list[Any]:
    loaded = load_checkpoint(run, device)
    predictor = loaded.task.scorer(loaded.model)
    assert predictor is not None
    return list(predict(predictor, list(loaded.task.items("dev"))))


def _load_file(path: Path, device: str) -> dict[str, torch.Tensor]:
    # safetensors knows no such device.
    return {name: value.to(device) for name, value in load_file(path).items()}
