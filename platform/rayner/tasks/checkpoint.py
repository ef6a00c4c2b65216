"""Checkpoint folders: weights, tokenizer and recipe in open formats, with the hash of each file.

`checkpoint.json` lists the files and their SHA-256; `recipe.yaml` says which task and model; the rest is what
the task's `save` wrote. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rayner.config import BaseRecipe
from rayner.config.base import AskedPrecision, Precision
from rayner.config.recipe_files import dump_recipe
from rayner.errors import CheckpointError
from rayner.files.fetching import local
from rayner.files.run_checkpoints import checkpoint_of
from rayner.files.whole import write_json
from rayner.models.precision_choice import choose, precision_of, set_precision
from rayner.tasks.base import Predictor
from rayner.tasks.card import model_card
from rayner.tasks.checkpoint_files import (
    MANIFEST,
    RECIPE,
    manifest_version,
    read_known_recipe,
    write_manifest,
)
from rayner.tasks.encoder_task import EncoderTask, load_trained
from rayner.tasks.predictor_options import Options
from rayner.tasks.registry import Task, recipes, task_of, train_task

METRICS = "metrics.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint folder holds."""

    recipe: BaseRecipe
    task: EncoderTask[Any]
    model: nn.Module
    folder: Path
    precision: Precision = "float32"

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
            raise nothing_to_answer(self.folder, self.record)
        return found


def nothing_to_answer(folder: Path, record: Task) -> CheckpointError:
    """The error of a pre-training that is asked for answers."""
    what = f"is a pre-training (task {record.name}), which has nothing to answer"
    hint = "train another task with it as its `encoder`"
    if "support" in record.options.model_fields:
        hint = f"give annotated examples (--support), or {hint}"
    return CheckpointError(str(folder), what, hint)


def save_checkpoint(
    folder: Path, task: EncoderTask[Any], model: nn.Module, metrics: Mapping[str, Any]
) -> None:
    """Write a checkpoint into an empty folder; everything that lies in it by then becomes part of it."""
    recipe = task.recipe
    folder.mkdir(parents=True, exist_ok=True)
    task.save(model, folder)
    (folder / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    write_manifest(folder, recipe.task, precision_of(model))
    # What people read and may edit comes after the manifest and is not checked.
    write_json(folder / METRICS, metrics)
    words = task_of(recipe).kind.card(recipe)
    words = words._replace(about=[*words.about, *task.about()])
    (folder / "README.md").write_text(model_card(recipe, words, metrics), encoding="utf-8")


def load_checkpoint(
    folder: Path, device: str | torch.device | None = None, precision: AskedPrecision = None
) -> Checkpoint:
    """The model of a checkpoint folder, or of a run, in evaluation mode, to answer with.

    Args:
        device: by default a GPU where there is one.
        precision: what its encoders compute in, whatever they were trained in; by default as the device says.
            Below float32 their weights are rounded.

    Raises:
        CheckpointError: a file that is missing, cut short or changed, or a task that this version lacks.
        InputError: the device lacks the precision.
    """
    folder = local(checkpoint_of(folder))
    recipe = read_recipe(folder)
    task, model = load_trained(folder, recipe, train_task, device)
    chosen = choose(precision, model).precision
    set_precision(model, chosen, rounded=True)
    task.precision = chosen
    return Checkpoint(recipe, task, model, folder, chosen)


def read_recipe(folder: Path) -> BaseRecipe:
    """The recipe of a checkpoint of any task, as `checkpoint_files.read_known_recipe`."""
    return read_known_recipe(local(folder), recipes())


def version_of(folder: Path) -> str:
    """What tells this checkpoint from any other: its task, and a hash of the hashes of its files.

    Raises:
        CheckpointError: the folder is no checkpoint.
    """
    folder = local(checkpoint_of(folder))
    path = folder / MANIFEST
    if not path.is_file():
        raise CheckpointError(str(path), "is missing", "name a checkpoint folder, such as RUN/best")
    return manifest_version(folder, read_recipe(folder).task)
