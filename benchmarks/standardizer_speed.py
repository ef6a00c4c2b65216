"""What the standardizer costs: answers beside one padded batch, and the loss of a step beside its encoder.

Answers: the first 2,439 training mentions of ESAppMod to an index of its entities' names, by vectors and
n-grams, beside the published way, which puts them all into one batch padded to the longest, keeps the
gradients, and compares the vectors with those of the entities. Both in turn in this process, medians
of CPU time.

Loss: a step of 1,280 mentions on 8 workers, each with 160: forward and backward pass of the loss on the
vectors of all, for one worker's mentions (what a worker does) and for all of them (what one process would
do), beside the forward pass, backward pass and update of the encoder on the same mentions.

    PYTHONPATH=platform RAYNER_DATA=DATA python -m benchmarks.standardizer_speed --json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, record
from benchmarks.meter import Meter
from rayner.config import StandardizerRecipe
from rayner.config.recipe_files import corpus_paths
from rayner.data.mention_readers import read_mention_strings
from rayner.data.mention_strings import MentionString
from rayner.data.schema import Entity
from rayner.models.name_encoder import NameEncoder
from rayner.retrieval.build import build_index
from rayner.tasks.base import Progress
from rayner.tasks.predict import predict
from rayner.tasks.registry import load_recipe
from rayner.tasks.standardizer.chunks import NameBatch
from rayner.tasks.standardizer.predictor import TOKENS_PER_SEARCH, Standardizer
from rayner.tasks.standardizer.task import StandardizerTask

RECIPE = Path(__file__).resolve().parents[1] / "jobs" / "recipes" / "standardizer_esappmod.yaml"
MENTIONS = 2439
WORKERS, SHARE = 8, 160
MINING = ("batch_all", "batch_hard", "infonce")
UNITS = {
    "seconds": "s",
    "one_batch_seconds": "s",
    "times_faster": "ratio",
    "peak_mb": "MB",
    "one_batch_peak_mb": "MB",
    "worker_loss_ms": "ms",
    "worker_share_of_step": "%",
    "worker_peak_mb": "MB",
    "loss_ms": "ms",
    "share_of_step": "%",
}
PROGRESS = Progress(step=1, steps=4, epoch=1, epochs=4)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "standardizer_speed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    meter = Meter("cpu", "float32")
    task = StandardizerTask(_recipe([]))
    model = task.build().eval()
    rows = [answers(task, model, options.rounds, meter)]
    rows += [loss_of_step(m, options.rounds, meter) for m in MINING]
    record(
        "standardizer_speed",
        options.out,
        title="Standardizing 2,439 mentions, and the loss of a step",
        section="Linking",
        task="standardizer",
        conditions="Training mentions of ESAppMod against the names of its entities, vectors and n-grams, "
        "beside one padded batch with gradients; and the loss of a step of 1,280 mentions, for one of 8 "
        "workers with 160 and for one process with all. One thread, CPU time, memory over the model.",
        uncertainty=f"Medians of {options.rounds} interleaved rounds.",
        rows=measured(rows, UNITS, headline="times_faster"),
    )
    for row in rows:
        print("  ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    if options.json:
        print(json.dumps({"rows": rows}))


def answers(task: StandardizerTask, model: NameEncoder, rounds: int, meter: Meter) -> dict[str, Any]:
    """Seconds and megabytes of both ways to answer."""
    paths = corpus_paths(task.recipe.mentions.train, "mentions.train")
    texts = [m.text for m in read_mention_strings(paths).mentions][:MENTIONS]
    entities = list(task.strings.indexed)
    names = [entity.name for entity in entities]
    settings, distance = task.recipe.index, task.recipe.loss.learned_distance
    named = [Entity(entity.entity_id, entity.name) for entity in entities]
    index = build_index(named, lambda t: task.encode(model, t), settings, distance)
    standardizer = Standardizer(index, lambda t: task.encode(model, t), task.fitted.weight)
    of_entities = torch.from_numpy(task.encode(model, names))

    def ours() -> object:
        mentions: list[MentionString | str] = list(texts)
        return list(predict(standardizer, mentions, TOKENS_PER_SEARCH))

    def one_batch() -> Tensor:
        ids, mask = _padded(task, texts)
        return (model(ids, mask) @ of_entities.T).topk(5).indices

    seconds = _interleaved({"ours": ours, "one_batch": one_batch}, rounds, meter)
    return {
        "mentions": len(texts),
        "entities": len(names),
        "seconds": seconds["ours"],
        "one_batch_seconds": seconds["one_batch"],
        "times_faster": seconds["one_batch"] / seconds["ours"],
        "peak_mb": meter.peak_mb(ours),
        "one_batch_peak_mb": meter.peak_mb(one_batch),
    }


def loss_of_step(mining: str, rounds: int, meter: Meter) -> dict[str, Any]:
    """What an objective takes of a step, on each worker and in one process."""
    task = StandardizerTask(_recipe([f"loss.mining={mining}", f"groups.groups_per_step={WORKERS * 16}"]))
    examples = list(task.examples(task.strings.learned))
    lengths = np.array([example["length"] for example in examples])
    groups = np.array([example["group"] for example in examples])
    chosen = np.concatenate(task.plan(lengths, groups, 1))[: WORKERS * SHARE]
    batch = task.collate([examples[i] for i in chosen], [(1, 1, int(i)) for i in chosen])
    model = task.build()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with torch.no_grad():
        vectors = _vectors(task, model, batch)

    def encoder_step() -> None:
        optimizer.zero_grad()
        _vectors(task, model, batch).square().sum().backward()
        optimizer.step()

    def loss(own: int) -> None:
        leaf, rows = vectors.clone().requires_grad_(), torch.arange(own)
        contrasts = task.contrast(leaf[rows], leaf, batch.entities, rows, PROGRESS)
        torch.stack([total for total, _ in contrasts.values()]).sum().backward()

    of_worker, of_all = partial(loss, SHARE), partial(loss, len(chosen))
    seconds = _interleaved({"encoder": encoder_step, "worker": of_worker, "all": of_all}, rounds, meter)
    own_step = seconds["encoder"] * SHARE / len(chosen)
    return {
        "mining": mining,
        "mentions": len(chosen),
        "worker_loss_ms": 1000 * seconds["worker"],
        "worker_share_of_step": seconds["worker"] / (seconds["worker"] + own_step),
        "worker_peak_mb": meter.peak_mb(of_worker),
        "loss_ms": 1000 * seconds["all"],
        "share_of_step": seconds["all"] / (seconds["all"] + seconds["encoder"]),
        "peak_mb": meter.peak_mb(of_all),
    }


def _vectors(task: StandardizerTask, model: nn.Module, batch: NameBatch) -> Tensor:
    vectors = task.forward(model, batch, PROGRESS).vectors
    assert vectors is not None
    return vectors


def _recipe(changes: Sequence[str]) -> StandardizerRecipe:
    recipe = load_recipe(RECIPE, changes)
    assert isinstance(recipe, StandardizerRecipe)
    return recipe


def _padded(task: StandardizerTask, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    tokenizer = task.tokenizer
    rows = [[tokenizer.cls_id, *ids, tokenizer.sep_id] for ids, _ in tokenizer.batch(texts)]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.pad_id] * (longest - len(row)) for row in rows])
    return ids, torch.arange(longest)[None, :] < torch.tensor([len(row) for row in rows])[:, None]


def _interleaved(steps: Mapping[str, Callable[[], object]], rounds: int, meter: Meter) -> dict[str, float]:
    """The median seconds of each step; a first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 1):
        for name, step in steps.items():
            taken = meter.seconds(step)
            if turn:
                seconds[name].append(taken)
        print(f"round {turn} of {rounds}", file=sys.stderr, flush=True)
    return {name: median(taken) for name, taken in seconds.items()}


if __name__ == "__main__":
    call_main(main)
