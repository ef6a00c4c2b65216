"""What a step on a GPU makes the host wait for: nothing that can be known before."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from rayner.runtime.training.learner import build_learner, take_step
from rayner.runtime.training.steps import Step
from rayner.tasks.base import Progress
from rayner.tasks.registry import parse_recipe, train_task
from tests import other_device
from tests.tasks.small_recipes import SMALL

OF_THE_ENCODER = "aten::_local_scalar_dense"
"""transformers asks whether anything is masked."""
MORE = {"coreference": ["aten::nonzero"] * 2, "recognizer": [OF_THE_ENCODER] * 3}
"""Which spans are compared is up to their scores; two encoders go forward twice each."""
NAMES = [
    "chains",
    "coreference",
    "gaussian",
    "ranker",
    "recognizer",
    "standardizer",
    "tagger",
    "tagger_crf",
    "typer",
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    # In a process of its own: torch keeps a device that it was told of for good.
    with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
        return pool.submit(waits_of_steps, tmp_path_factory.mktemp("recipes")).result()


@pytest.mark.parametrize("name", NAMES)
def test_a_step_waits_for_encoders_alone(found: dict[str, list[str]], name: str) -> None:
    assert found[name] == [OF_THE_ENCODER, *MORE.get(name, [])]


def waits_of_steps(folder: Path) -> dict[str, list[str]]:
    other_device.register()
    found = {}
    for name in NAMES:
        (folder / name).mkdir()
        task = train_task(parse_recipe(SMALL[name](folder / name), "recipe"))
        examples = list(task.examples(task.items("train")))
        batch = task.collate(examples, [(1, 0, number) for number in range(len(examples))])
        device = torch.device(other_device.NAME, 0)
        learner = build_learner(task, task.build(), None, device, "float32")
        size = task.size_of(batch)
        step = Step([batch], size.tokens, size.tokens, [size])
        for number in range(2):
            # The first step keeps what all need, such as the texts of types.
            other_device.waits.clear()
            take_step(learner, step, Progress(number, 10, 0, 1))
        found[name] = list(other_device.waits)
    return found
