"""What rayner costs and answers on a GPU, as one JSON object on standard output.

The first part needs neither Ray nor FAISS nor a network: every task of the registry learns and answers with
an untrained encoder in the shape of the default one, in float32 and in bfloat16, and is divided by its floor,
the bare encoder on the same inputs; its answers are compared with those of the CPU; an index is searched. The
second part, where Ray is installed, trains a run on a worker with a GPU, sweeps two trials on halves of it
and asks a replica.

    PYTHONPATH=platform:. python -m benchmarks.gpu
    PYTHONPATH=platform:. python -m benchmarks.gpu --device cpu --steps 2 --parts tasks index
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.command import call_main
from benchmarks.gpu_material import recipes, write_encoder
from benchmarks.gpu_workers import on_workers
from benchmarks.meter import Meter
from rayner.config.base import Precision
from rayner.models.encoder import Encoder
from rayner.models.precision import autocast, default_precision
from rayner.models.precision_choice import set_precision
from rayner.runtime.training.learner import build_learner, take_step
from rayner.runtime.training.steps import Step
from rayner.tasks.base import Progress
from rayner.tasks.encoder_task import EncoderTask
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, tasks, train_task

PARTS = ("tasks", "index", "ray")
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
NEAR = 1e-3
"""Scores of the CPU and of a GPU in float32 that differ by less are equal: sums in another order."""

Call = tuple[Tensor, Tensor]
Row = dict[str, Any]


def main() -> None:
    options = _options()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"skipped": "torch sees no GPU here; --device cpu tries the code without one"}))
        return
    found: Row = {"machine": _machine(device)}
    with tempfile.TemporaryDirectory() as folder:
        encoder = write_encoder(Path(folder, "encoder"), options.hidden, options.layers)
        if "tasks" in options.parts:
            found["tasks"] = list(_all_tasks(Path(folder), encoder, device, options))
        if "index" in options.parts:
            found["index"] = index_search(device, options.names, options.hidden)
        if "ray" in options.parts:
            found["ray"] = {"skipped": "Ray is not installed"}
            if find_spec("ray") is not None:
                found["ray"] = on_workers(Path(folder), encoder, options.items, device.type == "cuda")
    print(json.dumps(found))


def _all_tasks(
    folder: Path, encoder: Path, device: torch.device, options: argparse.Namespace
) -> Iterator[Row]:
    made = recipes(folder, encoder, options.items)
    for name in options.tasks or sorted(tasks()):
        if name not in made:
            yield {"task": name, "skipped": "there is no material for it"}
            continue
        task = train_task(parse_recipe(made[name](), name))
        floor: dict[str, float] = {}
        reference: dict[str, Tensor] | None = None
        for precision in PRECISIONS:
            row, reference = measure(task, device, precision, options.steps, floor, reference)
            print(json.dumps(row), file=sys.stderr, flush=True)
            yield row


def measure(
    task: EncoderTask[Any],
    device: torch.device,
    precision: Precision,
    steps: int,
    floor: dict[str, float],
    trained: dict[str, Tensor] | None,
) -> tuple[Row, dict[str, Tensor]]:
    """One task in one precision, beside the floor in that precision and in float32.

    Args:
        floor: of float32, in seconds; filled when that is measured.
        trained: the weights that answer; those of this training if None.

    Returns:
        The row, and these weights.
    """
    meter = Meter(device.type, "float32")
    examples = list(task.examples(task.items("train")))
    batch = task.collate(examples, [(1, 0, number) for number in range(len(examples))])
    torch.manual_seed(1)
    model = task.build()
    learner = build_learner(task, model, None, device, precision)
    with _recorded(model) as calls:
        _train(learner, batch, 0, steps)
    training = list(calls)
    own = next(module for module in model.modules() if isinstance(module, Encoder))
    step = _floor_step(own, training, precision, device)
    numbers = iter(range(1, 10**9))
    spent, bare = _interleaved(
        meter, steps, lambda: _train(learner, batch, next(numbers) % steps, steps), step
    )
    row: Row = {"task": task.recipe.task, "precision": precision, "device": str(device)}
    floor.setdefault("training", bare)
    row |= {"training_seconds": spent, "training_over_floor": spent / bare}
    row["training_over_float32_floor"] = spent / floor["training"]
    peak = meter.peak_mb(lambda: _train(learner, batch, 0, steps))
    row["training_peak_mb"] = None if np.isnan(peak) else peak
    trained = trained or {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}
    return row | _answers(task, trained, device, precision, steps, floor, meter), trained


def _answers(
    task: EncoderTask[Any],
    weights: dict[str, Tensor],
    device: torch.device,
    precision: Precision,
    steps: int,
    floor: dict[str, float],
    meter: Meter,
) -> Row:
    items = list(task.items("dev"))

    def answering(where: torch.device, used: Precision) -> tuple[nn.Module, Any]:
        model = task.build()
        model.load_state_dict(weights)
        model.to(where).eval()
        set_precision(model, used, rounded=True)
        with torch.no_grad():
            task.fit(model, items)
        return model, task.scorer(model)

    model, predictor = answering(device, precision)
    if predictor is None:
        return {}
    with torch.no_grad():
        with _recorded(model) as calls:
            given = list(predict(predictor, items))
        asked = list(calls)
        own = next(module for module in model.modules() if isinstance(module, Encoder))
        spent, bare = _interleaved(
            meter,
            steps,
            lambda: list(predict(predictor, items)),
            lambda: [own(ids, mask) for ids, mask in asked],
        )
        peak = meter.peak_mb(lambda: list(predict(predictor, items)))
        floor.setdefault("inference", bare)
        expected = list(predict(answering(torch.device("cpu"), "float32")[1], items))
    return {
        "inference_seconds": spent,
        "inference_over_floor": spent / bare,
        "inference_over_float32_floor": spent / floor["inference"],
        "inference_peak_mb": None if np.isnan(peak) else peak,
        **_compared(expected, given),
    }


def _train(learner: Any, batch: Any, number: int, steps: int) -> None:
    size = learner.task.size_of(batch)
    learner.model.train()
    take_step(learner, Step([batch], size.tokens, size.tokens, [size]), Progress(number, steps, 0, 1))


def _floor_step(
    encoder: Encoder, calls: Sequence[Call], precision: Precision, device: torch.device
) -> Callable[[], None]:
    """The bare encoder over the same inputs: forward, backward, AdamW. Each step rounds its weights anew."""
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-9, fused=True)

    def step() -> None:
        encoder.requires_grad_(True)
        optimizer.zero_grad(set_to_none=True)
        with autocast(device, precision):
            losses = [encoder(ids, mask).float().square().mean() for ids, mask in calls]
        torch.stack(losses).sum().backward()
        optimizer.step()

    return step


@contextmanager
def _recorded(model: nn.Module) -> Iterator[list[Call]]:
    """What the encoders of a model are given within it."""
    calls: list[Call] = []
    hooks = [
        module.register_forward_pre_hook(lambda _, given: calls.append((given[0].detach(), given[1])))
        for module in model.modules()
        if isinstance(module, Encoder)
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _interleaved(
    meter: Meter, rounds: int, step: Callable[[], object], floor: Callable[[], object]
) -> tuple[float, float]:
    """The median seconds of both; the first time of each is not counted."""
    step()
    floor()
    seconds = [(meter.seconds(step), meter.seconds(floor)) for _ in range(rounds)]
    return median(s for s, _ in seconds), median(f for _, f in seconds)


def _compared(expected: Sequence[Any], given: Sequence[Any]) -> Row:
    """How far answers are from those of the CPU in float32: decisions that differ, and the largest difference
    of scores of those that do not."""
    decided = [(_decided(a), _decided(b)) for a, b in zip(expected, given, strict=True)]
    wrong = sum(len(a ^ b) for a, b in decided)
    equal = [(x, y) for (a, b), x, y in zip(decided, expected, given, strict=True) if a == b and len(a)]
    differences = [abs(p - q) for x, y in equal for p, q in zip(_scores(x), _scores(y), strict=True)]
    largest = max(differences, default=0.0)
    return {
        "decisions": sum(len(a) for a, _ in decided),
        "decisions_that_differ": wrong,
        "largest_score_difference": largest,
        "equals_the_cpu": wrong == 0 and largest < NEAR,
    }


def _decided(answer: Any) -> set[Any]:
    if hasattr(answer, "chains"):
        return set(enumerate(np.asarray(answer.chains).ravel().tolist()))
    if (mentions := getattr(answer, "mentions", None)) is not None:
        return {(m.start, m.end, m.type, m.chain, *sorted(name for name, _ in m.types)) for m in mentions}
    return {answer.relevant if hasattr(answer, "relevant") else answer.entity_id}


def _scores(answer: Any) -> list[float]:
    if hasattr(answer, "chains"):
        return answer.vectors.ravel().tolist()
    if (mentions := getattr(answer, "mentions", None)) is not None:
        ordered = sorted(mentions, key=lambda m: (m.start, m.end, m.type))
        return [score for m in ordered for score in (m.score or 0.0, *(s for _, s in sorted(m.types)))]
    return [answer.score]


def index_search(device: torch.device, names: int, dimensions: int, queries: int = 64) -> Row:
    """The nearest of so many random vectors, by the device and by the CPU."""
    from rayner.retrieval.dense import DenseSide

    draw = np.random.default_rng(1)
    vectors = draw.standard_normal((names, dimensions), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = vectors[draw.integers(names, size=queries)]
    asked = asked + 0.1 * draw.standard_normal(asked.shape, dtype=np.float32)
    found, seconds = {}, {}
    for where in dict.fromkeys(("cpu", device.type)):
        dense = DenseSide(vectors, "cosine", device=where)
        prepared = dense.prepare(asked)
        dense.nearest(prepared, 10)
        begin = time.perf_counter()
        found[where] = dense.nearest(prepared, 10)
        seconds[f"{where}_seconds"] = time.perf_counter() - begin
    same = float((found["cpu"] == found[device.type]).mean())
    return {"names": names, "queries": queries, "neighbours_as_on_the_cpu": same, **seconds}


def _machine(device: torch.device) -> Row:
    is_gpu = device.type == "cuda"
    return {
        "gpu": torch.cuda.get_device_name(device) if is_gpu else None,
        "gpu_mb": torch.cuda.get_device_properties(device).total_memory / 2**20 if is_gpu else None,
        "default_precision": default_precision(device),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("torch", "transformers", "ray", "faiss-cpu")},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=10, help="that are timed")
    parser.add_argument("--items", type=int, default=128, help="of each kind, in one batch of training")
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--names", type=int, default=1_000_000, help="in the index")
    parser.add_argument("--tasks", nargs="+", help="all of the registry if unset")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    return parser.parse_args()


if __name__ == "__main__":
    call_main(main)
