"""The commands of a checkpoint's README and at the end of a training can be pasted, and say where dev is."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from rayner.tasks.card import commands_for, model_card
from rayner.tasks.registry import parse_recipe, task_of

CHECKPOINT = "my runs/best"
TYPES = [{"name": "PER", "description": "people"}]


def commands(values: dict[str, Any]) -> list[list[str]]:
    recipe = parse_recipe(values, "recipe")
    return [shlex.split(line) for line in commands_for(task_of(recipe).kind.card(recipe), CHECKPOINT)]


def standardizer(**base: Any) -> dict[str, Any]:
    return {"task": "standardizer", "knowledge_base": base, "mentions": {"train": ["my names.jsonl"]}}


def test_the_command_that_builds_an_index_names_files_with_spaces() -> None:
    build = commands(standardizer(paths=["my base.csv", "$RAYNER_DATA/more.csv"]))[0]
    assert build == [
        *["rayner", "index", "build", CHECKPOINT, "my base.csv", "$RAYNER_DATA/more.csv"],
        *["--mentions", "my names.jsonl", "--out", "index"],
    ]


def test_a_shell_still_replaces_the_variables_of_a_path() -> None:
    recipe = parse_recipe(standardizer(paths=["$RAYNER_DATA/base.csv"]), "recipe")
    (build, *_) = commands_for(task_of(recipe).kind.card(recipe), CHECKPOINT)
    assert ' "$RAYNER_DATA/base.csv" ' in build


def test_the_command_that_builds_an_index_reads_the_base_as_the_recipe_does() -> None:
    columns = {"entity_id": "key", "name": "the name"}
    build = commands(standardizer(paths=["base.csv"], format="columns", columns=columns))[0]
    given = ["--format", "columns", "--id-column", "key", "--name-column", "the name"]
    assert build[5 : 5 + len(given)] == given


def test_a_ranker_says_how_a_training_reads_contexts_with_it() -> None:
    said = commands({"task": "ranker", "pairs": {"train": ["rows.jsonl"]}})
    settings = [f"context.ranker={CHECKPOINT}", "context.candidates=8", "windows.context=48"]
    given = [word for setting in settings for word in ("--set", setting)]
    assert ["rayner", "train", "RECIPE", *given, "--out", "RUN"] in said


@pytest.mark.parametrize("task", ["chains", "gaussian"])
def test_a_training_that_begins_with_a_pretraining_has_a_folder_of_its_own(task: str) -> None:
    values: dict[str, Any] = {"task": task, "corpus": {"train": ["train"]}}
    values |= {"types": TYPES} if task == "gaussian" else {}
    begun = [*["rayner", "train", "RECIPE", "--set", f"encoder={CHECKPOINT}"], "--out", "RUN"]
    assert begun in commands(values)


@pytest.mark.parametrize("task", ["recognizer", "tagger", "typer", "coreference", "chains", "gaussian"])
def test_a_readme_says_which_documents_were_held_out(task: str) -> None:
    values: dict[str, Any] = {"task": task, "corpus": {"train": ["train"], "dev_fraction": 0.1}}
    values |= {} if task in ("coreference", "chains") else {"types": TYPES}
    recipe = parse_recipe(values, "recipe")
    text = model_card(recipe, task_of(recipe).kind.card(recipe), {"f1": 0.5})
    assert "## Scores on `10% of the training documents`\n" in text
    assert "\n| f1 (%) | 50.0 |\n" in text


def test_a_readme_without_dev_names_none() -> None:
    recipe = parse_recipe({"task": "tagger", "corpus": {"train": ["train"]}, "types": TYPES}, "recipe")
    text = model_card(recipe, task_of(recipe).kind.card(recipe), {})
    assert "## Scores\n" in text
    assert "nothing" not in text


def test_a_squared_error_is_no_percentage() -> None:
    recipe = parse_recipe({"task": "ranker", "pairs": {"train": ["rows"], "dev": ["dev"]}}, "recipe")
    text = model_card(recipe, task_of(recipe).kind.card(recipe), {"accuracy": 0.9, "mse": 0.2337})
    assert "\n| accuracy (%) | 90.0 |\n| mse | 0.2337 |\n" in text
