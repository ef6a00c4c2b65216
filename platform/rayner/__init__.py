"""rayner: contrastive entity recognition and linking on Ray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayner.tasks.stages import Pipeline

__all__ = ["__version__", "load"]
__version__ = "0.1.0"


def load(checkpoint: str | Path, device: str | None = None, **options: Any) -> Pipeline:
    """The model of a checkpoint folder or the stages of a pipeline file, ready to predict.

    Args:
        checkpoint: a folder such as `RUN/best`, or a YAML file whose `stages` name checkpoints.
        device: `cpu`, `cuda:0` and so on; by default a GPU where there is one.
        options: of the checkpoint's task: `types`, `shift`, `overlap` of a recognizer; `index`, `top_k`,
            `operating_point` of a standardizer.

    Raises:
        CheckpointError: the folder is no checkpoint, or is damaged.
        InputError: an option that the task does not have.
    """
    # torch is imported when something is loaded, not with the package.
    from rayner.tasks.stages import load_pipeline

    return load_pipeline(checkpoint, device, **options)
