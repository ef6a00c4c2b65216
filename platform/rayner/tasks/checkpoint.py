"""Checkpoint folders: weights, tokenizer and recipe in open formats, with the hash of each file.

`checkpoint.json` lists the files and their SHA-256; `recipe.yaml` says which task and model; the rest is what
the task's `save` wrote. Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from rayner.config import BaseRecipe
from rayner.config.reading import dump_recipe
from rayner.errors import CheckpointError, InputError, storage_error
from rayner.models.tokenizer import tokenizer_from
from rayner.tasks.base import Options, Predictor, RunTask
from rayner.tasks.card import model_card
from rayner.tasks.checkpoint_files import ENCODER, HINT, MANIFEST, check_files, sha256_of, write_manifest
from rayner.tasks.encoder_task import EncoderTask
from rayner.tasks.registry import Task, parse_recipe, task_of, train_task

RECIPE = "recipe.yaml"
METRICS = "metrics.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint folder holds."""

    recipe: BaseRecipe
    task: EncoderTask[Any]
    model: nn.Module
    folder: Path

    @property
    def record(self) -> Task:
        """The record of its task."""
        return task_of(self.recipe)

    def predictor(self, options: Options | None = None) -> Predictor[Any, Any, Any, Any]:
        """The model as it answers.

        Args:
            options: of the task's record; None for its defaults.

        Raises:
            CheckpointError: a pre-training, which has nothing to answer.
            InputError: an option that cannot be had.
        """
        found = self.task.predictor(self.model, options)
        if found is None:
            what = f"is a pre-training (task {self.recipe.task}), which has nothing to answer"
            raise CheckpointError(str(self.folder), what, "train another task with it as its `encoder`")
        return found


def save_checkpoint(
    folder: Path,
    recipe: BaseRecipe,
    task: RunTask,
    model: nn.Module,
    metrics: Mapping[str, Any],
) -> None:
    """Write a checkpoint into an empty folder; everything that lies in it by then becomes part of it."""
    folder.mkdir(parents=True, exist_ok=True)
    task.save(model, folder)
    (folder / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    write_manifest(folder, recipe.task)
    # What people read and may edit comes after the manifest and is not checked.
    (folder / METRICS).write_text(json.dumps(dict(metrics), indent=1, ensure_ascii=False), encoding="utf-8")
    card = model_card(recipe, task_of(recipe).kind.card(recipe), metrics)
    (folder / "README.md").write_text(card, encoding="utf-8")


def replace_recipe(folder: Path, recipe: BaseRecipe) -> None:
    """Give a checkpoint another recipe of the same task and model."""
    (folder / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"][RECIPE] = sha256_of(folder / RECIPE)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def load_checkpoint(folder: Path, device: str | torch.device | None = None) -> Checkpoint:
    """The model of a checkpoint folder, in evaluation mode.

    Args:
        device: by default a GPU where there is one.

    Raises:
        CheckpointError: a file that is missing, cut short or changed, or a task that this version lacks.
    """
    recipe = read_recipe(folder)
    check_files(folder)
    tokenizer = folder / ENCODER
    task = train_task(recipe, tokenizer_from(tokenizer) if tokenizer.is_dir() else None)
    model = load_model(folder, task).eval()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return Checkpoint(recipe, task, model.to(device), folder)


def load_model(folder: Path, task: RunTask) -> nn.Module:
    """The model in the folder.

    Raises:
        CheckpointError: it does not fit the recipe beside it.
    """
    try:
        return task.load(folder)
    except InputError:
        raise
    except Exception as error:
        if failure := storage_error(str(folder), "cannot be read", error):
            raise failure from error
        what = f"does not load ({type(error).__name__}: {error})"
        raise CheckpointError(str(folder), what, HINT) from error


def read_recipe(folder: Path) -> BaseRecipe:
    """The recipe of a checkpoint.

    Raises:
        CheckpointError: none is there, or this version cannot read it.
    """
    path = folder / RECIPE
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        hint = "name a checkpoint folder, such as RUN/best" if not path.exists() else HINT
        what = "is missing" if not path.exists() else f"cannot be read ({type(error).__name__})"
        raise CheckpointError(str(path), what, hint) from None
    if not isinstance(values, dict):
        raise CheckpointError(str(path), "is cut short: not a mapping of keys to values", HINT)
    try:
        return parse_recipe(values, str(path))
    except InputError as error:
        # What was cut short may still be YAML: the hash tells it from a recipe of another version.
        try:
            check_files(folder)
        except CheckpointError as damage:
            if damage.where == str(path):
                raise CheckpointError(str(path), f"{damage.what} ({error.what})", HINT) from None
        hint = error.hint or "was it made by another version of rayner?"
        raise CheckpointError(error.where, error.what, hint) from None


def version_of(folder: Path) -> str:
    """What tells this checkpoint from any other: its task, and a hash of the hashes of its files.

    Raises:
        CheckpointError: the folder is no checkpoint.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise CheckpointError(str(path), "is missing", "name a checkpoint folder, such as RUN/best")
    return f"{read_recipe(folder).task}-{sha256_of(path)[:12]}"
