"""rayner: contrastive entity recognition and linking on Ray."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rayner.config.documents import TypeSettings as Type
    from rayner.data.readers import Reading, read_corpus
    from rayner.data.readers.huggingface import read_dataset
    from rayner.data.schema import Candidate, Context, Document, Entity, Mention
    from rayner.errors import (
        CheckpointError,
        CorpusError,
        DivergedError,
        FileError,
        IndexFolderError,
        InputError,
        KnowledgeBaseError,
        RaynerError,
        RecipeError,
        StorageError,
    )
    from rayner.tasks.predictor_options import Options
    from rayner.tasks.stages import Pipeline
    from rayner.tasks.standardizer.predictor import Answer

__all__ = [
    "Answer",
    "Candidate",
    "CheckpointError",
    "Context",
    "CorpusError",
    "DivergedError",
    "Document",
    "Entity",
    "FileError",
    "IndexFolderError",
    "InputError",
    "KnowledgeBaseError",
    "Mention",
    "Options",
    "Pipeline",
    "RaynerError",
    "Reading",
    "RecipeError",
    "StorageError",
    "Type",
    "__version__",
    "load",
    "read_corpus",
    "read_dataset",
]
__version__ = "0.1.0"

_MODULES = {
    "Answer": "rayner.tasks.standardizer.predictor",
    "Candidate": "rayner.data.schema",
    "Context": "rayner.data.schema",
    "Document": "rayner.data.schema",
    "Entity": "rayner.data.schema",
    "Mention": "rayner.data.schema",
    "Options": "rayner.tasks.predictor_options",
    "Pipeline": "rayner.tasks.stages",
    "Reading": "rayner.data.readers",
    "Type": "rayner.config.documents",
    "read_corpus": "rayner.data.readers",
    "read_dataset": "rayner.data.readers.huggingface",
}
"""Where what is exported comes from, if not from `rayner.errors`."""
_OWN_NAMES = {"Type": "TypeSettings"}


def load(
    checkpoint: str | Path,
    device: str | None = None,
    precision: Literal["float32", "bfloat16", "float16", "auto"] | None = None,
    **options: Any,
) -> Pipeline:
    """The model of a checkpoint folder or the stages of a pipeline file, ready to predict.

    Args:
        checkpoint: a folder such as `RUN/best`, or `RUN`, or a YAML file whose `stages` name checkpoints.
        device: `cpu`, `cuda:0` and so on; by default a GPU where there is one.
        precision: `float32`, `bfloat16`, `float16`, or `auto`, the faster of the first two by a timing; by
            default float32 on a CPU and bfloat16 on a GPU that has it. `version` of the result's `settings`
            names it.
        options: of the checkpoint's task: `types` (of one that the model learned the name is enough:
            `["person"]`), `shift`, `overlap` of a recognizer; `index`, `top_k`, `operating_point`,
            `nil_share` of a standardizer.

    Raises:
        CheckpointError: the folder is no checkpoint, or is damaged.
        InputError: an option that the task does not have, or a device or a precision that there is not.
    """
    from rayner.tasks.stages import load_pipeline

    return load_pipeline(checkpoint, device, precision, **options)


if not TYPE_CHECKING:  # Else type checkers would take any name for one that is there.

    def __getattr__(name: str) -> Any:
        # What is exported is imported when it is used: `import rayner` takes milliseconds, torch seconds.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_MODULES.get(name, "rayner.errors")), _OWN_NAMES.get(name, name))
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
