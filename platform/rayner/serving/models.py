"""The models that answer now: loaded whole, swapped whole, each with its version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from rayner.config import DocumentRecipe, TypeSettings
from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.serving.knowledge import Choice, ServedKnowledgeBase, load_knowledge_bases
from rayner.serving.predictors import AnyPredictor, PredictorCache, recognizer_predictors
from rayner.serving.schemas import ModelsReply, RecognizerOut, TypeOut, Versions
from rayner.serving.settings import ModelSettings
from rayner.tasks.base import Options
from rayner.tasks.checkpoint import Checkpoint, load_checkpoint, version_of
from rayner.tasks.predict import predict
from rayner.tasks.recognizer.types import Threshold
from rayner.tasks.registry import Stage
from rayner.tasks.stages import chain

_FIRST = Document("", "The first words that a new model reads take longer than any others.")


@dataclass(frozen=True, eq=False)
class ServedRecognizer:
    """A checkpoint that finds mentions."""

    path: str
    version: str
    loaded: Checkpoint
    predictors: PredictorCache[Options]

    @property
    def recipe(self) -> DocumentRecipe:
        """That of the checkpoint."""
        return cast(DocumentRecipe, self.loaded.recipe)

    @property
    def types(self) -> dict[str, TypeSettings]:
        """The types that it learned."""
        return {t.name: t for t in self.recipe.types}

    def new_types(self, options: Options) -> dict[str, Threshold]:
        """Those of the options' types that it did not learn."""
        return dict(self.loaded.task.new_types(options))

    def options(self, **values: Any) -> Options:
        """The options in plain values.

        Raises:
            InputError: an option that its task does not have.
        """
        return self.loaded.record.options.of(values, self.recipe.task)

    def describe(self) -> RecognizerOut:
        """For `GET /v1/models`."""
        return RecognizerOut(
            version=self.version,
            task=self.recipe.task,
            types=[TypeOut(name=t.name, description=t.description) for t in self.recipe.types],
            window_length=self.recipe.windows.length,
            window_overlap=self.recipe.windows.overlap,
        )


class Linking(NamedTuple):
    """What is asked of a linker: of the recognizer, of which knowledge bases, and how."""

    options: Options
    bases: tuple[str, ...]
    choice: Choice


@dataclass(frozen=True, eq=False)
class Models:
    """All that answers. A request takes it once and keeps it to its end."""

    recognizer: ServedRecognizer | None
    knowledge_bases: Mapping[str, ServedKnowledgeBase]
    linkers: PredictorCache[Linking]

    def versions(self, *, recognizer: bool = False, bases: tuple[str, ...] = ()) -> Versions:
        """Of what made a reply."""
        return Versions(
            recognizer=self.recognizer.version if recognizer and self.recognizer else None,
            knowledge_bases={name: self.knowledge_bases[name].versions for name in bases},
        )

    def flat_versions(self) -> dict[str, str]:
        """Of everything, by a name each, for metrics."""
        found = {"recognizer": self.recognizer.version} if self.recognizer else {}
        for name, served in self.knowledge_bases.items():
            found |= {f"index {name}": served.versions.index}
            found |= {f"standardizer {name}": served.versions.standardizer}
        return found

    def describe(self, failed_change: str | None) -> ModelsReply:
        """For `GET /v1/models`."""
        return ModelsReply(
            recognizer=self.recognizer.describe() if self.recognizer else None,
            knowledge_bases={name: kb.describe() for name, kb in self.knowledge_bases.items()},
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
    bases = load_knowledge_bases(settings.knowledge_bases, old.knowledge_bases if old else {}, device)

    def linker(asked: Linking) -> AnyPredictor:
        assert recognizer is not None
        stages: list[Stage] = [recognizer.predictors.make(asked.options)]
        return chain([*stages, *(bases[name].stages.make(asked.choice) for name in asked.bases)])

    return Models(recognizer, bases, PredictorCache(linker, 4 * type_sets))


def _recognizer(
    path: str, type_sets: int, old: ServedRecognizer | None, device: str | None
) -> ServedRecognizer:
    version = version_of(Path(path))
    if old is not None and (old.path, old.version) == (path, version):
        return old
    loaded = load_checkpoint(Path(path), device)
    if loaded.record.stage != "mentions":
        raise InputError("recognizer", f"{path} finds no mentions", "name a recognizer's checkpoint")
    served = ServedRecognizer(path, version, loaded, recognizer_predictors(loaded, type_sets))
    list(predict(served.predictors.make(served.options()), [_FIRST]))
    return served
