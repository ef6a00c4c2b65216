"""The tasks by name."""

from __future__ import annotations

from typing import Any

from rayner.config import BaseRecipe, RecognizerRecipe, StandardizerRecipe, TaggerRecipe
from rayner.models.encoder import Tokenizer
from rayner.tasks.base import TrainTask
from rayner.tasks.recognizer import RecognizerTask
from rayner.tasks.standardizer import StandardizerTask
from rayner.tasks.tagger import TaggerTask


def train_task(recipe: BaseRecipe, tokenizer: Tokenizer | None = None) -> TrainTask[Any, Any, Any]:
    """The task of a recipe; `tokenizer` is that of a checkpoint."""
    match recipe:
        case RecognizerRecipe():
            return RecognizerTask(recipe, tokenizer)
        case TaggerRecipe():
            return TaggerTask(recipe, tokenizer)
        case StandardizerRecipe():
            return StandardizerTask(recipe, tokenizer)
    raise TypeError(f"no task for {type(recipe).__name__}")
