"""Small checkpoints to serve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml

from rayner.data.schema import Entity
from rayner.metrics.nil import NIL, RIGHT, NilCalibration, Odds, Sample
from rayner.runtime.linking import indexes
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.standardizer.fitting import Fitted
from rayner.tasks.standardizer.task import StandardizerTask
from tests.tasks.small import DOCUMENTS, built, corpus, recognizer, tagger, trained
from tests.tasks.small_pairs import ranker_recipe

PEOPLE = (
    Entity("ada", "Ada Lovelace", ("Augusta Ada King",)),
    Entity("curie", "Marie Curie", ("Maria Sklodowska", "Curie")),
)
PLACES = (
    Entity("paris", "Paris"),
    Entity("london", "London", ("Londinium",)),
    Entity("rhine", "the Rhine"),
    Entity("seine", "Seine"),
)
TEXTS = [document.text for document in corpus(DOCUMENTS)]


@cache
def learned(steps: int, texts: tuple[str, ...] = (*DOCUMENTS,), **windows: int) -> tuple[Any, Any]:
    """A recognizer's task and model."""
    task = recognizer(windows=windows) if windows else recognizer()
    return task, trained(task, corpus(texts), steps)


@cache
def learned_typer() -> tuple[Any, Any]:
    """A typer's task and model."""
    values = {"task": "typer", "encoder": "random:32x2", "model": {"dropout": 0}}
    values |= {"corpus": {"train": ["nowhere"], "dev": ["nowhere"]}, "windows": {"length": 40, "overlap": 10}}
    task: Any = train_task(parse_recipe(values, "test"))
    task.vocabulary = {"PER": 2, "ORG": 2, "LOC": 2}
    return task, trained(task, corpus(), 30)


def recognizer_folder(folder: Path, steps: int = 60) -> Path:
    """A checkpoint of a recognizer; other steps give other weights."""
    task, model = learned(steps)
    save_checkpoint(folder, task, model, {"f1": 1.0})
    return folder


def tagger_folder(folder: Path) -> Path:
    """A checkpoint of a tagger."""
    task = tagger()
    save_checkpoint(folder, task, trained(task, corpus(), 30), {"f1": 1.0})
    return folder


def standardizer_folder(folder: Path, entities: Sequence[Entity], seed: int = 1) -> tuple[Path, Path]:
    """A checkpoint of a standardizer with a NIL calibration, and an index of the entities."""
    base = write_entities(folder / "entities.jsonl", entities)
    recipe = parse_recipe(
        {
            "task": "standardizer",
            "seed": seed,
            "encoder": "random:32x2",
            "knowledge_base": {"paths": [str(base)]},
            "mentions": {"abbreviations": True, "composites": True},
        },
        "test",
    )
    task = train_task(recipe)
    assert isinstance(task, StandardizerTask)
    torch.manual_seed(seed)
    model = task.build().eval()
    task.fitted = Fitted(
        0.5,
        NilCalibration(
            (0.9, 0.1, 0.1),
            (0.2, 0.2, 0.2),
            Odds((2.0, 0.5, 0.5), 0.0),
            Odds((2.0, 0.5, 0.5), 0.0),
            Sample((2.0, 1.0, 0.0, 0.0), (2.0, 1.0, 0.5, -1.0), (RIGHT, RIGHT, NIL, NIL), (0.5,) * 4),
        ),
    )
    save_checkpoint(folder / "best", task, model, {"top1": 1.0})
    indexes.build(folder / "best", [base], folder / "index", device="cpu")
    return folder / "best", folder / "index"


def ranker_folder(folder: Path) -> Path:
    """A checkpoint of a ranker of contexts that has learned nothing."""
    task = train_task(parse_recipe(ranker_recipe(folder.with_name("pairs")), "test"))
    save_checkpoint(folder, task, built(task), {})
    return folder


def typer_folder(folder: Path) -> Path:
    """A checkpoint of a typer that has seen the small corpus."""
    save_checkpoint(folder, *learned_typer(), {})
    return folder


def pipeline_folder(
    folder: Path, people: Sequence[Entity], texts: Sequence[str] = DOCUMENTS, shift: float = -0.5
) -> Path:
    """A pipeline of contexts, mentions, types and entities (of people alone), as `pipeline.yaml`.

    Args:
        texts: marked texts that the recognizer has learned.
    """
    ranker_folder(folder / "ranker")
    task, model = learned(60, tuple(texts), length=40, overlap=10, context=12)
    save_checkpoint(folder / "recognizer", task, model, {})
    typer_folder(folder / "typer")
    standardizer_folder(folder / "people", people)
    stages = [
        {"checkpoint": "ranker", "count": 2},
        {"checkpoint": "recognizer", "shift": shift},
        {"checkpoint": "typer"},
        {"checkpoint": "people/best", "index": "people/index", "types": ["PER"], "operating_point": "never"},
    ]
    (folder / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    return folder


def write_entities(path: Path, entities: Sequence[Entity]) -> Path:
    """A knowledge base file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"entity_id": e.entity_id, "name": e.name, "aliases": list(e.aliases)} for e in entities]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path
