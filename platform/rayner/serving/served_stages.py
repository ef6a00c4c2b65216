"""The stages that read texts, and what a request may ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rayner.config import BaseRecipe, TypeSettings
from rayner.config.documents import described, listed_types, window_settings
from rayner.serving.model_schemas import RecognizerOut, TypeOut, TyperOut
from rayner.serving.predictors import AnyPredictor, PredictorCache
from rayner.serving.remote_stages import RemoteStage
from rayner.tasks.checkpoint import Checkpoint
from rayner.tasks.predictor_options import Options
from rayner.tasks.stage_settings import StageSettings

STAGE = {"contexts": "contexts", "mentions": "recognizer", "types": "typer", "entities": "entities"}
"""What replies call the version of a stage."""


@dataclass(frozen=True, eq=False)
class ServedStage:
    """A stage that reads texts: all but those that link to a knowledge base.

    Args:
        names: the types that it finds.
    """

    settings: StageSettings
    version: str
    loaded: Checkpoint
    predictor: AnyPredictor
    names: Sequence[str] = ()

    @property
    def name(self) -> str:
        """What replies call its version."""
        return STAGE[str(self.loaded.record.stage)]


@dataclass(frozen=True, eq=False)
class AskedStage:
    """A stage of which a request may ask something: the one that finds mentions, or the one that types
    them."""

    stage: ServedStage
    predictors: PredictorCache[Options]

    @property
    def recipe(self) -> BaseRecipe:
        """That of the checkpoint."""
        return self.stage.loaded.recipe

    @cached_property
    def types(self) -> Sequence[TypeSettings]:
        """Those that it looks for unless a request says: those of the pipeline file, or of the recipe; with a
        support those of its examples, and without any in the recipe those that the predictor names."""
        asked, learned = self.stage.settings.options, listed_types(self.recipe)
        types = [] if asked.paths() else described(asked.asked_types or (), learned) or learned
        return types or described([TypeSettings(name=name) for name in self.stage.names], learned)

    @property
    def known(self) -> Sequence[TypeSettings]:
        """The types that a request may ask for by their names alone; of equal names the last one is meant."""
        return (*listed_types(self.recipe), *self.types)

    def options(self, **values: Any) -> Options:
        """The options in plain values; those that are None are as the pipeline file has them.

        Raises:
            InputError: an option that its task does not have.
        """
        asked = {name: value for name, value in values.items() if value is not None}
        own = dict(self.stage.settings.options)
        return self.stage.loaded.record.options.of({**own, **asked}, self.recipe.task)

    def describe(self) -> RecognizerOut:
        """For `GET /v1/models`."""
        known = self.stage.loaded.record.options.model_fields
        windows = window_settings(self.recipe)
        return RecognizerOut(
            version=self.stage.version,
            task=self.recipe.task,
            types=[TypeOut(name=t.name, description=t.description) for t in self.types],
            options=[name for name in ("types", "shift", "overlap") if name in known],
            shift=self.stage.settings.options.asked_shift,
            window_length=windows.length if windows else None,
            window_overlap=windows.overlap if windows else None,
        )

    def describe_typer(self) -> TyperOut:
        """As `describe`, of a typer."""
        return TyperOut(
            version=self.stage.version,
            task=self.recipe.task,
            types=list(self.stage.names),
            shift=self.stage.settings.options.asked_shift,
        )


async def new_types(stages: Sequence[ServedStage], asked: AskedStage, options: Options) -> dict[str, Any]:
    """The types that the models of stages never learned, where one of them is asked for these options."""
    found: dict[str, Any] = {}
    for stage in stages:
        own = options if stage is asked.stage else stage.settings.options
        if not isinstance(stage.predictor, RemoteStage):
            found |= stage.loaded.task.new_types(own)
        elif own.asked_types:
            found |= await stage.predictor.new_types(own)
    return found


def chained(stages: Sequence[ServedStage], asked: AskedStage, options: Options) -> list[Any]:
    """The stages as predictors, one of them with these options."""
    predictor = asked.predictors.make(options)
    return [predictor if stage is asked.stage else stage.predictor for stage in stages]
