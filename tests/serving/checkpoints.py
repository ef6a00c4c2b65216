"""Small checkpoints to serve."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from rayner.tasks.checkpoint import save_checkpoint
from tests.tasks.small import DOCUMENTS, corpus, recognizer, tagger, trained

TEXTS = [document.text for document in corpus(DOCUMENTS)]


@cache
def learned(steps: int) -> tuple[Any, Any]:
    """A recognizer's task and model."""
    task = recognizer()
    return task, trained(task, corpus(), steps)


def recognizer_folder(folder: Path, steps: int = 60) -> Path:
    """A checkpoint of a recognizer; other steps give other weights."""
    task, model = learned(steps)
    save_checkpoint(folder, task.recipe, task, model, {"f1": 1.0})
    return folder


def tagger_folder(folder: Path) -> Path:
    """A checkpoint of a tagger."""
    task = tagger()
    save_checkpoint(folder, task.recipe, task, trained(task, corpus(), 30), {"f1": 1.0})
    return folder
