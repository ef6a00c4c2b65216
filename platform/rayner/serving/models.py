"""The models that answer now: loaded whole, swapped whole, each with its version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rayner.config import DocumentRecipe, TypeSettings
from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.serving.predictors import Kept, recognizer_predictors
from rayner.serving.schemas import ModelsReply, RecognizerOut, TypeOut, Versions
from rayner.serving.settings import ModelSettings
from rayner.tasks.base import DEFAULTS, Options
from rayner.tasks.checkpoint import load_checkpoint, version_of
from rayner.tasks.predict import predict

_FIRST = Document("", "The first words that a new model reads take longer than any others.")


@dataclass(frozen=True, eq=False)
class ServedRecognizer:
    """A checkpoint that finds mentions."""

    path: str
    version: str
    recipe: DocumentRecipe
    predictors: Kept[Options]

    @property
    def types(self) -> dict[str, TypeSettings]:
        """The types that it learned."""
        return {t.name: t for t in self.recipe.types}

    def describe(self) -> RecognizerOut:
        """For `GET /v1/models`."""
        return RecognizerOut(
            version=self.version,
            task=self.recipe.model_dump(include={"task"})["task"],
            types=[TypeOut(name=t.name, description=t.description) for t in self.recipe.types],
            window_length=self.recipe.windows.length,
            window_overlap=self.recipe.windows.overlap,
        )


@dataclass(frozen=True, eq=False)
class Models:
    """All that answers. A request takes it once and keeps it to its end."""

    recognizer: ServedRecognizer | None

    def versions(self) -> Versions:
        """Of everything."""
        return Versions(recognizer=self.recognizer.version if self.recognizer else None)

    def flat_versions(self) -> dict[str, str]:
        """Of everything, by a name each, for metrics."""
        return {"recognizer": self.recognizer.version} if self.recognizer else {}

    def describe(self, failed_change: str | None) -> ModelsReply:
        """For `GET /v1/models`."""
        return ModelsReply(
            recognizer=self.recognizer.describe() if self.recognizer else None,
            knowledge_bases={},
            failed_change=failed_change,
        )


def load_models(
    settings: ModelSettings, type_sets: int, old: Models | None = None, device: str | None = None
) -> Models:
    """The models that the settings name; of `old`, what is the same is kept.

    Raises:
        InputError: a folder that is no checkpoint of the task it is named for.
    """
    recognizer = None
    if settings.recognizer is not None:
        before = old.recognizer if old else None
        recognizer = _recognizer(settings.recognizer, type_sets, before, device)
    return Models(recognizer)


def _recognizer(
    path: str, type_sets: int, old: ServedRecognizer | None, device: str | None
) -> ServedRecognizer:
    version = version_of(Path(path))
    if old is not None and (old.path, old.version) == (path, version):
        return old
    loaded = load_checkpoint(Path(path), device)
    if not isinstance(loaded.recipe, DocumentRecipe):
        raise InputError("recognizer", f"{path} finds no mentions", "name a recognizer's checkpoint")
    served = ServedRecognizer(path, version, loaded.recipe, recognizer_predictors(loaded, type_sets))
    list(predict(served.predictors.make(DEFAULTS), [_FIRST]))
    return served
