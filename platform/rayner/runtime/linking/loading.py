"""A standardizer from a checkpoint folder, for commands and endpoints that are about mentions alone."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from rayner.config.base import AskedPrecision
from rayner.errors import CheckpointError
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.stages import checkpoint_in
from rayner.tasks.standardizer.task import StandardizerTask


def load_standardizer(
    folder: Path, device: str | None = None, precision: AskedPrecision = None
) -> tuple[StandardizerTask, nn.Module]:
    """The task and the model of a checkpoint, or of a pipeline file's stage of entities.

    Raises:
        CheckpointError: it is damaged, or of another task.
        RecipeError: the pipeline file has not one such stage.
    """
    folder = checkpoint_in(folder, "entities")
    loaded = load_checkpoint(folder, device, precision)
    if not isinstance(loaded.task, StandardizerTask):
        hint = "train one with a recipe of `task: standardizer`"
        raise CheckpointError(str(folder), "is no checkpoint of a standardizer", hint)
    return loaded.task, loaded.model
