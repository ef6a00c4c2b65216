"""What a run leaves on disk, so that it can be killed at any moment and go on.

`OUT/last` is a checkpoint with `state/`: the optimizer, the averaged weights and how far the run is.
`OUT/best` is the checkpoint of the best evaluation, with the predictions that it was judged by.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rayner.config import BaseRecipe
from rayner.config.base import Precision
from rayner.config.recipe_files import changed_keys, flat
from rayner.errors import CheckpointError, RecipeError, storage_error
from rayner.files.folders import replace_folder, settle_folder
from rayner.files.run_checkpoints import BEST, LAST
from rayner.runtime.run_folder import has_sweep
from rayner.runtime.training.learner import Learner
from rayner.tasks.base import State, Unit
from rayner.tasks.checkpoint import read_recipe, save_checkpoint
from rayner.tasks.checkpoint_files import MANIFEST, check_files

EPOCH = "epoch.safetensors"
RAY_SNAPSHOT = "checkpoint_manager_snapshot.json"
"""Where Ray Train notes what it was told of a run: `ray.train.Result.from_path(OUT)` reads it."""
FREE_KEYS = ("scaling.", "tracking.")
"""What may change between two launches of a run."""

_HINT = "start over with --fresh, or name another --out"


@dataclass(frozen=True, slots=True)
class TrainState:
    """How far a run is: `position` steps into `epoch` (from 0), `step` of `steps` in all.

    `examples` is what `key_of_data` says of its data; `waited` counts the evaluations since the best one;
    `scale` is the state of float16's loss scale. `precision` is what the run computes in, to its end;
    `bfloat16_time` is the share of that time that bfloat16 would take, where float32 runs and is the slower
    one.
    """

    examples: str
    steps: int
    workers: int
    step: int = 0
    epoch: int = 0
    position: int = 0
    best: float | None = None
    best_step: int = 0
    waited: int = 0
    finished: bool = False
    seconds: float = 0.0
    scale: dict[str, Any] | None = None
    precision: Precision = "float32"
    bfloat16_time: float | None = None


def save_last(out: Path, learner: Learner, train_state: TrainState, epoch_state: State | None = None) -> None:
    """Replace `OUT/last`; `epoch_state` is what the task made for the epoch that the run is in."""
    task, model, average = learner.task, learner.model, learner.average

    def write(folder: Path) -> None:
        state = folder / "state"
        state.mkdir()
        save_file(_optimizer_tensors(model, learner.optimizer), state / "optimizer.safetensors")
        if average is not None:
            save_file(average.weights, state / "average.safetensors", {"updates": str(average.updates)})
        if epoch_state is not None:
            save_file({k: v.cpu().contiguous() for k, v in epoch_state.items()}, state / EPOCH)
        (state / "state.json").write_text(json.dumps(asdict(train_state), indent=1), encoding="utf-8")
        save_checkpoint(folder, task, model, {})

    replace_folder(out / LAST, write)


def read_state(out: Path, recipe: BaseRecipe) -> TrainState | None:
    """How far the run in a folder is; None where there is none, or where its `last/` was removed.

    Raises:
        RecipeError: the run was started with another recipe.
        CheckpointError: `OUT/last` is damaged.
        StorageError: it cannot be read now.
    """
    try:
        return _read_state(out, recipe)
    except OSError as error:
        if failure := storage_error(str(out / LAST), "cannot be read", error):
            raise failure from error
        raise


def _read_state(out: Path, recipe: BaseRecipe) -> TrainState | None:
    folder = out / LAST
    settle_folder(folder)
    settle_folder(out / BEST)
    if not folder.exists():
        if (out / BEST / MANIFEST).exists():
            _check_recipe(out, BEST, recipe)
        return None
    _check_recipe(out, LAST, recipe)
    check_files(folder)
    path = folder / "state" / "state.json"
    try:
        state = TrainState(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError) as error:
        raise CheckpointError(str(path), f"is no run's state ({error})", _HINT) from None
    if state.best_step and not state.finished and not (out / BEST / MANIFEST).exists():
        what = f"is missing, though step {state.best_step} of the run was the best"
        raise CheckpointError(str(out / BEST), what, "restore it, or train anew with --fresh")
    return state


def _check_recipe(out: Path, name: str, recipe: BaseRecipe) -> None:
    if changed := changed_since(out, read_recipe(out / name), recipe):
        what = f"holds a run of another recipe; changed: {', '.join(changed)}"
        raise RecipeError(str(out), what, _HINT)


def changed_since(out: Path, before: BaseRecipe, recipe: BaseRecipe) -> list[str]:
    """The dotted keys in which a recipe is another than that of the run in a folder, and may not be."""
    changed = [key for key in changed_keys(before, recipe) if not key.startswith(FREE_KEYS)]
    # A sweep may have been moved, with its trials and the parts of the corpus that they read.
    sweep = next((above for above in out.resolve().parents[:3] if changed and has_sweep(above)), None)
    if sweep is None:
        return changed
    old, new = (dict(flat(one.model_dump(mode="json"))) for one in (before, recipe))
    return [key for key in changed if not _moved_with(sweep, old.get(key), new.get(key))]


def _moved_with(sweep: Path, old: Any, new: Any) -> bool:
    """Whether paths are those of the same files in a folder that was moved."""
    if not isinstance(old, list) or not isinstance(new, list) or len(old) != len(new):
        return False
    for one, other in zip(old, new, strict=True):
        path = Path(str(other)).resolve()
        inner = path.relative_to(sweep).parts if path.is_relative_to(sweep) else ()
        if not inner or Path(str(one)).parts[-len(inner) :] != inner:
            return False
    return True


def identity_of_last(out: Path) -> str:
    """What tells the state in `OUT/last`, as seen from here, from any other; empty where there is none."""
    folder = out / LAST
    try:
        manifest = (folder / MANIFEST).read_bytes()
        step = json.loads((folder / "state" / "state.json").read_text(encoding="utf-8"))["step"]
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"unreadable ({error})"
    return f"step {step}, {hashlib.sha256(manifest).hexdigest()[:12]}"


def key_of_data(content: str, *judged_by: Sequence[Unit]) -> str:
    """What tells the data of a run from any other: the content of its examples, and after it that of the
    units that it is judged by and calibrated on, where there are any."""
    digests = [[unit.digest for unit in units] for units in judged_by]
    if not any(digests):
        return content
    return f"{content}+{hashlib.sha256(json.dumps(digests).encode()).hexdigest()[:24]}"


def check_examples(out: Path, train_state: TrainState, key: str, steps: int) -> None:
    """Refuse to go on with other data than the run began with: scores on another development set cannot be
    held against those so far.

    Args:
        key: as `key_of_data`.
        steps: of all epochs, as they are planned now.

    Raises:
        RecipeError: the corpus has changed since, or an earlier version planned other steps.
    """
    if train_state.steps != steps or train_state.examples != key:
        raise RecipeError(
            str(out), "holds a run on another state of the corpus, or of another version of rayner", _HINT
        )


def load_state(out: Path, learner: Learner) -> None:
    """Read the state in `OUT/last` into the optimizer and the average of a learner whose model came from
    there.

    Raises:
        CheckpointError: it is another model's.
        StorageError: it cannot be read now.
    """
    state, average = out / LAST / "state", learner.average
    try:
        with safe_open(state / "optimizer.safetensors", "pt") as file:
            stored = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        _load_optimizer(stored, learner.model, learner.optimizer)
        if average is not None:
            with safe_open(state / "average.safetensors", "pt") as file:
                average.updates = int(file.metadata()["updates"])
                for name, weight in average.weights.items():
                    weight.copy_(file.get_tensor(name))
    except Exception as error:
        if failure := storage_error(str(state), "cannot be read", error):
            raise failure from error
        raise CheckpointError(str(state), f"does not fit the model ({error})", _HINT) from error


def load_epoch_state(out: Path, device: torch.device) -> State | None:
    """What the task made for the epoch that `OUT/last` is in; None where it made nothing.

    Raises:
        CheckpointError: it is damaged.
        StorageError: it cannot be read now.
    """
    path = out / LAST / "state" / EPOCH
    try:
        return load_file(path, str(device))
    except FileNotFoundError:
        return None
    except Exception as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        raise CheckpointError(str(path), f"cannot be read ({error})", _HINT) from error


def _trained(model: nn.Module) -> Mapping[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value.contiguous()
        for name, parameter in _trained(model).items()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _load_optimizer(stored: Mapping[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    parameters = _trained(model)
    for name, value in stored.items():
        owner, _, key = name.rpartition("/")
        parameter = parameters[owner]
        if value.ndim and value.shape != parameter.shape:
            raise ValueError(f"{name} has shape {tuple(value.shape)}")
        optimizer.state[parameter][key] = value.to(parameter.device)
