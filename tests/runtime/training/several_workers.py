"""Runs in several processes that talk over gloo, without Ray."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file

from rayner.data.example_sets import ExampleSet
from rayner.runtime.training import learner
from rayner.runtime.training.distributed import rank
from rayner.runtime.training.example_building import build_examples
from rayner.runtime.training.failures import GroupLostError
from rayner.runtime.training.loop import Run, work
from rayner.tasks.base import Progress
from rayner.tasks.registry import parse_recipe, train_task
from tests.runtime.training.toy_task import LoopTask, largest_difference, toy_run, weights_of

NAMES = ("Ada", "Grace Hopper", "Alan M. Turing", "Kurt", "Emmy Noether")
# What the first step of an optimizer, the first encoder, index, calibration and event file import.
multiprocessing.set_forkserver_preload(
    [
        __name__,
        "torch._dynamo",
        "transformers.models.bert.modeling_bert",
        "sklearn.feature_extraction.text",
        "sklearn.linear_model",
        "torch.utils.tensorboard",
    ]
)
WORDS = 10_000
"""Parameters with so many rows are embeddings of the vocabulary."""
PLACES = ("Turin", "New York City", "Oslo", "the Port of Rotterdam")


def spawn(function: Callable[..., None], workers: int, folder: Path, *arguments: Any) -> None:
    """Call `function(*arguments)` in each of some processes; one worker is this process.

    They are forked from a process that has imported what takes seconds to import.
    """
    if workers == 1:
        function(*arguments)
        return
    folder.mkdir(parents=True, exist_ok=True)
    given = (function, workers, str(folder / "meeting"), dict(os.environ), arguments)
    mp.start_processes(_enter, given, nprocs=workers, start_method="forkserver")  # type: ignore[attr-defined]


def _enter(
    number: int,
    function: Callable[..., None],
    workers: int,
    meeting: str,
    environment: dict[str, str],
    arguments: Any,
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=number, world_size=workers)
    function(*arguments)
    if dist.is_initialized():
        dist.destroy_process_group()


def train_toy(out: Path, fail_at: int | None, settings: dict[str, Any]) -> None:
    task = LoopTask(double=True)
    task.fail_at = fail_at
    work(toy_run(out, task, **settings))


def lose_the_group(out: Path, at: int) -> None:
    """A run whose process group is destroyed in a step, as by Ray Train when a worker of it died."""
    task, own = LoopTask(), dist.get_rank()
    forward = task.forward

    def losing(model: torch.nn.Module, batch: Any, progress: Progress) -> Any:
        if progress.step == at and dist.is_initialized():
            dist.destroy_process_group()
        return forward(model, batch, progress)

    task.forward = losing  # type: ignore[method-assign]
    with pytest.raises(GroupLostError):
        work(toy_run(out, task, checkpoint_every=1))
    (out.parent / f"raised-{own}").touch()


def train_in_float64(
    values: dict[str, Any], examples: Path, out: Path, keeping: Callable[[Path], Any] = nullcontext
) -> None:
    """Train what a recipe describes, without dropout in its encoders, under what keeps something of each step
    in `OUT/kept-RANK`."""
    recipe = parse_recipe(values, "recipe")
    task = train_task(recipe)
    build = task.build

    def exact() -> torch.nn.Module:
        model = build().double()
        for module in model.modules():
            if hasattr(module, "set_dropout"):
                module.set_dropout(0.0)  # type: ignore[operator]
        return model

    task.build = exact  # type: ignore[method-assign]
    found = ExampleSet(examples)
    dev = list(task.items("dev"))
    out.mkdir(parents=True, exist_ok=True)
    with keeping(out / f"kept-{rank()}"):
        work(Run(task, found, "key", dev, out, torch.device("cpu")))


@contextmanager
def keeping_gradients(folder: Path) -> Iterator[None]:
    """Within it, every step writes its gradients, those of all workers together, before they are clipped: of
    the words those that occur, whose gradients are not 0."""
    folder.mkdir()
    sum_gradients = learner.sum_gradients

    def keeping(parameters: Sequence[torch.nn.Parameter]) -> None:
        sum_gradients(parameters)
        found = {}
        for i, gradient in enumerate(p.grad for p in parameters):
            if gradient is None:
                continue
            is_words = gradient.ndim == 2 and len(gradient) >= WORDS
            if is_words and (rows := gradient.any(1).nonzero()[:, 0]).numel():
                found |= {f"{i} rows": rows, f"{i} values": gradient[rows]}
            else:
                found[str(i)] = gradient.contiguous()
        save_file(found, folder / f"{len(list(folder.iterdir())):04}.safetensors")

    learner.sum_gradients = keeping
    try:
        yield
    finally:
        learner.sum_gradients = sum_gradients


def gradients_of(folder: Path) -> list[dict[str, torch.Tensor]]:
    """By step, what `keeping_gradients` wrote."""
    return [load_file(path) for path in sorted(folder.iterdir())]


def losses(out: Path) -> list[float]:
    """Of each step that the log tells of."""
    return [row["loss"] for row in _log(out) if "loss" in row]


def scores(out: Path) -> list[float]:
    """Of each evaluation during a training its F1, or its accuracy of linking."""
    found = [row["metrics"] for row in _log(out) if "metrics" in row]
    return [score["f1" if "f1" in score else "top1"] for score in found]


def _log(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def assert_two_equal_one(folder: Path, values: dict[str, Any], examples: Path) -> None:
    """Two workers leave the weights, losses and scores of one, in float64."""
    for workers in (1, 2):
        out = folder / str(workers)
        spawn(train_in_float64, workers, out, values, examples, out)
    one, two = (weights_of(folder / str(workers) / "last") for workers in (1, 2))
    assert next(iter(one.values())).dtype == torch.float64
    assert largest_difference(one, two) < 1e-9
    assert losses(folder / "1") == pytest.approx(losses(folder / "2"), abs=1e-9)
    assert scores(folder / "1") == pytest.approx(scores(folder / "2"), abs=1e-9)


def tiny_recipe(folder: Path, task: str, sentences: int = 30, **training: Any) -> dict[str, Any]:
    """A recipe with a small untrained encoder and a corpus of so many sentences in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = folder / "corpus.jsonl"
    with corpus.open("w") as file:
        for number in range(sentences):
            name, place = NAMES[number % len(NAMES)], PLACES[number % len(PLACES)]
            text = f"{name} went to {place}" + " and came back" * (number % 3) + "."
            start = len(f"{name} went to ")
            mentions = [
                {"start": 0, "end": len(name), "type": "PER"},
                {"start": start, "end": start + len(place), "type": "LOC"},
            ]
            file.write(json.dumps({"document_id": str(number), "text": text, "mentions": mentions}) + "\n")
    types = [
        {"name": "PER", "description": "people by name"},
        {"name": "LOC", "description": "places on a map"},
    ]
    return {
        "task": task,
        "encoder": "random:32x2",
        "corpus": {"train": [str(corpus)], "dev": [str(corpus)]},
        "types": types,
        "model": {"dropout": 0.0},
        "training": {"epochs": 2, "tokens_per_step": 60, "learning_rate": 1e-3, "log_every": 1} | training,
    }


def toy_values(folder: Path, task: str = "toy", **training: Any) -> dict[str, Any]:
    """A recipe of the toy task on the same corpus: what it is about is not the model, whose encoder and
    libraries take most of the time of a training this small."""
    values = tiny_recipe(folder, task, **{"head_learning_rate": 0.1} | training)
    del values["model"]
    return values | {"types": values["types"][:1]}


def tiny_examples(values: dict[str, Any], cache: Path) -> Path:
    return build_examples(train_task(parse_recipe(values, "recipe")), cache).folder
