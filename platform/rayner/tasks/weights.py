"""The weights of a model in a checkpoint folder."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_model
from torch import nn

from rayner.errors import CheckpointError

WEIGHTS = "model.safetensors"


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
