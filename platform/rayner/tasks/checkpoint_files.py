"""What lies in a checkpoint folder: weights, recipe, and a manifest with the hash of each file. No pickle is
read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rayner.config import BaseRecipe
from rayner.config.base import Precision
from rayner.config.recipe_files import YAML_ERRORS, Recipes, parse_recipe
from rayner.errors import CheckpointError, InputError, storage_error
from rayner.files.fetching import local
from rayner.files.hashes import sha256_of
from rayner.files.run_checkpoints import MANIFEST, RECIPE
from rayner.models.finite import check_finite
from rayner.models.sources import WEIGHTS

FORMAT = 2
"""1 had all weights in one file; it is still read."""
HINT = "copy the whole checkpoint folder again, or train anew"


class Place(NamedTuple):
    """Where the weights of a part of a model lie: the folder, and what precedes their names there."""

    folder: str
    prefix: str = ""


def save_weights(model: nn.Module, folder: Path, places: Mapping[str, Place]) -> None:
    """Write all parameters and buffers, each once.

    Args:
        places: for the parts that have a file of their own, what precedes their names in the model.
    """
    # A view of a tensor cannot be written.
    rest = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    for start, place in places.items():
        part = {name: rest.pop(name) for name in list(rest) if name.startswith(start)}
        (folder / place.folder).mkdir(exist_ok=True)
        _write(
            {place.prefix + name.removeprefix(start): tensor for name, tensor in part.items()},
            folder / place.folder / WEIGHTS,
        )
    _write(rest, folder / WEIGHTS)


def load_weights(model: nn.Module, folder: Path, places: Mapping[str, Place]) -> None:
    """Fill a model with what `save_weights` wrote, or with a single file of all weights (format 1).

    Raises:
        CheckpointError: a file that is missing, cut short, of another model, or whose weights are NaN.
    """
    weights = _read(folder / WEIGHTS, unbounded={name for name, _ in model.named_buffers()})
    for start, place in places.items():
        if not any(name.startswith(start) for name in weights):
            part = _read(folder / place.folder / WEIGHTS)
            weights |= {start + name.removeprefix(place.prefix): tensor for name, tensor in part.items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if missing or unexpected:
        wrong = [*missing, *unexpected]
        within = next((place.folder for start, place in places.items() if wrong[0].startswith(start)), "")
        what = f"does not fit the recipe beside it ({', '.join(wrong[:3])})"
        raise CheckpointError(str(folder / within / WEIGHTS), what, "keep all files of one run")


def _write(weights: Mapping[str, Tensor], path: Path) -> None:
    # transformers wants to be told.
    save_file(dict(weights), path, metadata={"format": "pt"})


def _read(path: Path, unbounded: Collection[str] = ()) -> dict[str, Tensor]:
    try:
        weights = load_file(path)
    except FileNotFoundError:
        raise CheckpointError(str(path), "is missing", "copy the whole checkpoint folder") from None
    except SafetensorError as error:
        raise CheckpointError(
            str(path), f"cannot be read ({error})", "copy the file again; it was cut short"
        ) from None
    check_finite(weights, path, unbounded)
    return weights


def task_in(
    folder: Path, what: str = "is no checkpoint", hint: str = "name a folder such as RUN/best"
) -> str:
    """The task of a checkpoint, by its manifest.

    Args:
        what: what a folder without one is told.
        hint: what to do then.

    Raises:
        CheckpointError: the folder is no checkpoint.
        StorageError: it cannot be read now.
    """
    try:
        return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["task"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if failure := storage_error(str(folder / MANIFEST), "cannot be read", error):
            raise failure from error
        raise CheckpointError(str(folder), what, hint) from None


def only(recipe: type[BaseRecipe]) -> Recipes:
    """This recipe type alone, by the name of its task."""
    (task,) = get_args(recipe.model_fields["task"].annotation)
    return {task: recipe}


def check_task(
    folder: Path,
    recipe: type[BaseRecipe],
    other: tuple[str, str],
    missing: tuple[str, str] = ("is no checkpoint", "name a folder such as RUN/best"),
) -> None:
    """Find out from the manifest whether a checkpoint is of the task of a recipe.

    Args:
        other: what is said of one of another task behind its name, and what to do then.
        missing: as of `task_in`.

    Raises:
        CheckpointError: the folder is no checkpoint, or one of another task.
        StorageError: it cannot be read now.
    """
    if (task := task_in(folder, *missing)) not in only(recipe):
        what, hint = other
        raise CheckpointError(str(folder), f"holds a {task}{what}", hint)


@contextmanager
def reading_part(path: Path) -> Iterator[None]:
    """Tell of a JSON file of a checkpoint that is missing, cut short or another's.

    Raises:
        CheckpointError: it is.
        StorageError: it cannot be read now.
    """
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        what = f"cannot be read ({type(error).__name__})"
        raise CheckpointError(str(path), what, "copy the whole checkpoint folder again") from None


def read_known_recipe(folder: Path, recipes: Recipes) -> BaseRecipe:
    """The recipe of a checkpoint of one of the tasks that there are recipes of.

    Raises:
        CheckpointError: none is there, or this version cannot read it.
    """
    path = folder / RECIPE
    try:
        values = _yaml(path.read_text(encoding="utf-8"))
    except (OSError, *YAML_ERRORS) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        hint = "name a checkpoint folder, such as RUN/best" if not path.exists() else HINT
        if not folder.exists():
            raise CheckpointError(str(folder), "does not exist", hint) from None
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


@lru_cache(maxsize=32)
def _yaml(text: str) -> Any:
    # A pipeline asks for the recipe of each stage again and again, and 10,000 types take 2 s to read: what is
    # kept must be more than there are stages.
    return yaml.safe_load(text)


def write_manifest(folder: Path, task: str, precision: Precision = "float32") -> None:
    """List every file that lies in the folder by now, with its SHA-256, and the precision of the training."""
    files = {
        str(path.relative_to(folder)): sha256_of(path)
        for path in sorted(path for path in folder.rglob("*") if path.is_file())
    }
    manifest = {"format": FORMAT, "task": task, "precision": precision, "files": files}
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
        hint = f"name a checkpoint folder, such as RUN/best, or {HINT}"
        raise CheckpointError(str(path), "is missing", hint) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        raise CheckpointError(str(path), "is cut short or not the file that was saved", HINT) from None
    if version not in range(1, FORMAT + 1):
        raise CheckpointError(str(path), f"format {version!r} is unknown", "use the rayner that wrote it")
    for name, digest in files.items():
        file = folder / name
        if not file.resolve().is_relative_to(folder.resolve()):
            raise CheckpointError(str(path), f"names {name!r}, outside the checkpoint", HINT)
        if not file.is_file():
            raise CheckpointError(str(file), "is missing", HINT)
        if sha256_of(file) != digest:
            raise CheckpointError(str(file), "is cut short or not the file that was saved", HINT)


def manifest_version(folder: Path, task: str) -> str:
    """What tells a checkpoint of a task from any other: its manifest has the hashes of all its files."""
    return f"{task}-{sha256_of(folder / MANIFEST)[:12]}"
