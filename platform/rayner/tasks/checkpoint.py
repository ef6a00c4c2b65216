"""Checkpoint folders: weights, tokenizer and recipe in open formats, with the hash of each file.

`checkpoint.json` lists the files and their SHA-256; `recipe.yaml` says which task and model; the rest is what
the task's `save` wrote. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from rayner.config import BaseRecipe
from rayner.data.schema import Document
from rayner.errors import CheckpointError, InputError, storage_error
from rayner.models.tokenizer import tokenizer_from
from rayner.recipes import dump_recipe, parse_recipe
from rayner.tasks.base import DEFAULTS, Options, TrainTask
from rayner.tasks.card import model_card
from rayner.tasks.new_types import Threshold, new_types
from rayner.tasks.predict import TOKENS_PER_BATCH, checked, predict
from rayner.tasks.registry import train_task

FORMAT = 1
MANIFEST = "checkpoint.json"
RECIPE = "recipe.yaml"
METRICS = "metrics.json"
CURE = "copy the whole checkpoint folder again, or train anew"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a checkpoint holds."""

    recipe: BaseRecipe
    task: TrainTask[Any, Any, Any]
    model: nn.Module

    def predict(
        self, items: Iterable[Any], options: Options = DEFAULTS, tokens_per_batch: int = TOKENS_PER_BATCH
    ) -> list[Any]:
        """The answer to each item, in order.

        Args:
            items: documents, or whatever else the task takes; a plain text counts as a document, with its
                place among the items as its id.
            options: other types, thresholds or nesting than the recipe's.
            tokens_per_batch: padded tokens a batch: memory against speed.

        Returns:
            For documents: the same documents with the mentions found in them.

        Raises:
            InputError: an item without a text, by its place, or options that the task does not have.
        """
        places = enumerate(checked(items))
        given = (Document(str(i), item) if isinstance(item, str) else item for i, item in places)
        return list(predict(self.task.predictor(self.model, options), given, tokens_per_batch))

    def new_types(self, options: Options = DEFAULTS) -> dict[str, Threshold]:
        """Which of the options' types the model did not learn, each with how `predict` has its threshold:
        `dynamic`, as for all types of the model, or the `mean` of those that were learned or tuned."""
        return new_types(self.recipe, [t.name for t in options.types or ()])


def save_checkpoint(
    folder: Path,
    recipe: BaseRecipe,
    task: TrainTask[Any, Any, Any],
    model: nn.Module,
    metrics: Mapping[str, Any],
) -> None:
    """Write a checkpoint into an empty folder; everything that lies in it by then becomes part of it."""
    folder.mkdir(parents=True, exist_ok=True)
    task.save(model, folder)
    (folder / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    files = {str(path.relative_to(folder)): _sha256(path) for path in _files(folder)}
    manifest = {"format": FORMAT, "task": recipe.model_dump()["task"], "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    # What people read and may edit comes after the manifest and is not checked.
    (folder / METRICS).write_text(json.dumps(dict(metrics), indent=1, ensure_ascii=False), encoding="utf-8")
    (folder / "README.md").write_text(model_card(recipe, metrics), encoding="utf-8")


def replace_recipe(folder: Path, recipe: BaseRecipe) -> None:
    """Give a checkpoint another recipe of the same task and model."""
    (folder / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"][RECIPE] = _sha256(folder / RECIPE)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def load_checkpoint(folder: Path, device: str | torch.device | None = None) -> Loaded:
    """The model of a checkpoint folder, in evaluation mode.

    Args:
        device: by default a GPU where there is one.

    Raises:
        CheckpointError: a file that is missing, cut short or changed, or a task that this version lacks.
    """
    recipe = read_recipe(folder)
    check_files(folder)
    tokenizer = folder / "encoder"
    task = train_task(recipe, tokenizer_from(tokenizer) if tokenizer.is_dir() else None)
    model = load_model(folder, task).eval()
    return Loaded(recipe, task, model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")))


def load_model(folder: Path, task: TrainTask[Any, Any, Any]) -> nn.Module:
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
        raise CheckpointError(str(folder), what, CURE) from error


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
        cure = "name a checkpoint folder, such as RUN/best" if not path.exists() else CURE
        what = "is missing" if not path.exists() else f"cannot be read ({type(error).__name__})"
        raise CheckpointError(str(path), what, cure) from None
    if not isinstance(values, dict):
        raise CheckpointError(str(path), "is cut short: not a mapping of keys to values", CURE)
    try:
        return parse_recipe(values, str(path))
    except InputError as error:
        # What was cut short may still be YAML: the hash tells it from a recipe of another version.
        try:
            check_files(folder)
        except CheckpointError as damage:
            if damage.where == str(path):
                raise CheckpointError(str(path), f"{damage.what} ({error.what})", CURE) from None
        cure = error.cure or "was it made by another version of rayner?"
        raise CheckpointError(error.where, error.what, cure) from None


def check_files(folder: Path) -> None:
    """Compare every file of a checkpoint with the hash that was taken when it was saved.

    Raises:
        CheckpointError: the first file that is missing or differs.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        files: dict[str, str] = dict(manifest["files"])
        version = manifest["format"]
    except FileNotFoundError:
        raise CheckpointError(str(path), "is missing", CURE) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        raise CheckpointError(str(path), "is cut short or not the file that was saved", CURE) from None
    if version != FORMAT:
        raise CheckpointError(str(path), f"format {version!r} is unknown", "use the rayner that wrote it")
    for name, digest in files.items():
        file = folder / name
        if not file.resolve().is_relative_to(folder.resolve()):
            raise CheckpointError(str(path), f"names {name!r}, outside the checkpoint", CURE)
        if not file.is_file():
            raise CheckpointError(str(file), "is missing", CURE)
        if _sha256(file) != digest:
            raise CheckpointError(str(file), "is cut short or not the file that was saved", CURE)


def version_of(folder: Path) -> str:
    """What tells this checkpoint from any other: its task, and a hash of the hashes of its files.

    Raises:
        CheckpointError: the folder is no checkpoint.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise CheckpointError(str(path), "is missing", "name a checkpoint folder, such as RUN/best")
    return f"{read_recipe(folder).model_dump()['task']}-{_sha256(path)[:12]}"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
