"""What lies in a checkpoint folder: weights, recipe, and a manifest with the hash of each file. No pickle is
read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save_model
from torch import nn

from rayner.config import BaseRecipe
from rayner.config.reading import Recipes, parse_recipe
from rayner.errors import CheckpointError, InputError, storage_error
from rayner.files.fetching import local

WEIGHTS = "model.safetensors"
ENCODER = "encoder"
RECIPE = "recipe.yaml"
MANIFEST = "checkpoint.json"
FORMAT = 1
HINT = "copy the whole checkpoint folder again, or train anew"


def save_weights(model: nn.Module, folder: Path) -> None:
    """Write all parameters and buffers."""
    save_model(model, str(folder / WEIGHTS))


def load_weights(model: nn.Module, folder: Path) -> None:
    """Fill a model with the weights of a folder.

    Raises:
        CheckpointError: the file is missing, cut short, or of another model.
    """
    path = folder / WEIGHTS
    try:
        weights = load_file(path)
    except FileNotFoundError:
        raise CheckpointError(str(path), "is missing", "copy the whole checkpoint folder") from None
    except SafetensorError as error:
        raise CheckpointError(
            str(path), f"cannot be read ({error})", "copy the file again; it was cut short"
        ) from None
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if missing or unexpected:
        names = ", ".join([*missing, *unexpected][:3])
        raise CheckpointError(
            str(path), f"does not fit the recipe beside it ({names})", "keep both files of one run"
        )


def read_known_recipe(folder: Path, recipes: Recipes) -> BaseRecipe:
    """The recipe of a checkpoint of one of the tasks that there are recipes of.

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
        return parse_recipe(values, str(path), recipes)
    except InputError as error:
        # What was cut short may still be YAML: the hash tells it from a recipe of another version.
        try:
            check_files(folder)
        except CheckpointError as damage:
            if damage.where == str(path):
                raise CheckpointError(str(path), f"{damage.what} ({error.what})", HINT) from None
        hint = error.hint or "was it made by another version of rayner?"
        raise CheckpointError(error.where, error.what, hint) from None


def write_manifest(folder: Path, task: str) -> None:
    """List every file that lies in the folder by now, with its SHA-256."""
    files = {
        str(path.relative_to(folder)): sha256_of(path)
        for path in sorted(path for path in folder.rglob("*") if path.is_file())
    }
    manifest = {"format": FORMAT, "task": task, "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def check_files(folder: Path) -> None:
    """Compare every file of a checkpoint with the hash that was taken when it was saved.

    Raises:
        CheckpointError: the first file that is missing or differs.
    """
    folder = local(folder)
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        files: dict[str, str] = dict(manifest["files"])
        version = manifest["format"]
    except FileNotFoundError:
        raise CheckpointError(str(path), "is missing", without_manifest(folder, HINT)) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        raise CheckpointError(str(path), "is cut short or not the file that was saved", HINT) from None
    if version != FORMAT:
        raise CheckpointError(str(path), f"format {version!r} is unknown", "use the rayner that wrote it")
    for name, digest in files.items():
        file = folder / name
        if not file.resolve().is_relative_to(folder.resolve()):
            raise CheckpointError(str(path), f"names {name!r}, outside the checkpoint", HINT)
        if not file.is_file():
            raise CheckpointError(str(file), "is missing", HINT)
        if sha256_of(file) != digest:
            raise CheckpointError(str(file), "is cut short or not the file that was saved", HINT)


def without_manifest(folder: Path, otherwise: str) -> str:
    """The hint where a folder has no manifest: in that of a run, which has a recipe too, its checkpoint."""
    best = folder / "best"
    return f"name a checkpoint folder, such as {best}" if (best / MANIFEST).is_file() else otherwise


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
