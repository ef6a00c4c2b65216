"""Example sets are kept from one launch to the next: what makes them differ must be said by their version."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rayner.data.example_shards import canonical
from rayner.models.encoder import load_tokenizer
from rayner.runtime.training.example_building import build_examples
from rayner.tasks.registry import OWN, parse_recipe, train_task
from tests.tasks.small_recipes import SMALL

EXAMPLES = {
    "recognizer": (6, "51ee079977e000d8"),
    "tagger": (6, "c38ff8b26def5128"),
    "gaussian": (7, "8ca8376cba99cf34"),
    "standardizer": (1, "bdd4897a783e579a"),
    "chains": (6, "db12ebb7b02aae92"),
    "coreference": (7, "544cc29eee022e97"),
    "typer": (9, "f5afcabfbe38de01"),
    "ranker": (1, "832386288a164b6c"),
}
"""Of each task: its `examples_version`, and a hash of the examples of a small recipe."""


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in row.items()}


@pytest.mark.parametrize("name", [task.name for task in OWN])
def test_other_examples_have_another_version(tmp_path: Path, name: str) -> None:
    """Raise `examples_version` of the task where this fails, and write the new values here."""
    task = train_task(parse_recipe(SMALL[name](tmp_path), "recipe"))
    rows = [_plain(row) for row in task.examples(task.items("train"))]
    digest = hashlib.sha256(canonical(rows).encode()).hexdigest()[:16]
    assert (task.examples_version, digest) == EXAMPLES[name]


def test_another_version_is_another_set(tmp_path: Path) -> None:
    task = train_task(parse_recipe(SMALL["tagger"](tmp_path), "recipe"))
    first = build_examples(task, tmp_path / "cache").folder
    assert build_examples(task, tmp_path / "cache").folder == first
    task.examples_version += 1
    assert build_examples(task, tmp_path / "cache").folder != first


@pytest.mark.parametrize("name", [task.name for task in OWN])
def test_another_tokenizer_under_the_same_name_is_another_set(tmp_path: Path, name: str) -> None:
    """A folder that was trained into again, or fetched again, may hold another vocabulary."""
    folder = tmp_path / "encoder"
    load_tokenizer("random:32x2").save(folder)
    recipe = parse_recipe({**SMALL[name](tmp_path), "encoder": str(folder)}, "recipe")
    before = train_task(recipe).example_settings()
    assert train_task(recipe).example_settings() == before
    path = folder / "tokenizer.json"
    path.write_text(path.read_text("utf-8").replace('"lowercase": true', '"lowercase": false'), "utf-8")
    assert train_task(recipe).example_settings() != before
