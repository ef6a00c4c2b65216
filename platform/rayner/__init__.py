"""rayner: contrastive entity recognition and linking on Ray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayner.tasks.checkpoint import Loaded
    from rayner.tasks.linking import load_linker, load_standardizer

__all__ = ["__version__", "load", "load_linker", "load_standardizer"]
__version__ = "0.1.0"


def load(checkpoint: str | Path, device: str | None = None) -> Loaded:
    """The model of a checkpoint folder, ready to predict.

    Args:
        checkpoint: a folder such as `RUN/best`.
        device: `cpu`, `cuda:0` and so on; by default a GPU where there is one.

    Raises:
        CheckpointError: the folder is no checkpoint, or is damaged.
    """
    from rayner.tasks.checkpoint import load_checkpoint

    return load_checkpoint(Path(checkpoint), device)


def __getattr__(name: str) -> Any:
    # torch is imported when something is loaded, not with the package.
    if name in ("load_linker", "load_standardizer"):
        from rayner.tasks import linking

        return getattr(linking, name)
    raise AttributeError(f"module 'rayner' has no attribute {name!r}")
