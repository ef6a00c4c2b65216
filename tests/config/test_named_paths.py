"""Every path that a recipe names is known as one, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rayner.config.named_paths import named_paths
from rayner.tasks.registry import load_recipe, parse_recipe

RECIPES = sorted((Path(__file__).parents[2] / "jobs" / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_name_their_data(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYNER_DATA", "/data")
    recipe = load_recipe(path)
    texts = [text for text in strings(recipe.model_dump(mode="json")) if "/" in text and " " not in text]
    of_data = {os.path.expandvars(text) for text in texts if text.startswith(("$", "platform/", "corpora/"))}
    assert of_data
    assert set(named_paths(recipe)) == of_data


def test_models_are_named_where_there_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("negative", "run/best", "ranker"):
        (tmp_path / name).mkdir(parents=True)
    values = {
        "task": "tagger",
        "encoder": "run",
        "types": [{"name": "A"}],
        "corpus": {"train": ["~/a.jsonl"], "dictionary": "names.tsv", "phrases": "p.txt"},
        "windows": {"context": 32},
        "context": {"methods": ["before"], "count": 2, "candidates": 4, "ranker": "ranker"},
    }
    recipe = parse_recipe(values, "recipe")
    of_models = {"run/best", "ranker"}
    assert set(named_paths(recipe)) == {os.path.expanduser("~/a.jsonl"), "names.tsv", "p.txt", *of_models}
    searched = [("encoder", "s3://bucket/run"), ("encoder", "org/name"), ("model.negatives", "negative")]
    assert "s3://bucket/run" in (found := named_paths(recipe, searched))
    assert not {"org/name", "negative"} & {*found}


def strings(values: Any) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from strings(value)
    elif isinstance(values, list):
        for value in values:
            yield from strings(value)
