"""What a replica of one stage does, with or without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.serving.application_settings import BatchingSettings, ModelSettings
from rayner.serving.composition import composed_pipeline, key_of
from rayner.serving.knowledge import Choice
from rayner.serving.metrics import Meter
from rayner.serving.predictors import AnyPredictor
from rayner.serving.reader import Reader
from rayner.serving.remote_stages import OtherModels, StageAbout
from rayner.serving.request_limits import check_type_tokens
from rayner.serving.served_pipelines import load_stages, of_one_version
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import Predicted
from rayner.tasks.predictor_options import Options


class StageService:
    """One stage of a pipeline, for who asks with its key.

    An error that is the request's own is returned, as it would lose its type on the way through Ray.

    Args:
        models: the service's.
        place: the stage's in the pipeline, from 0.
        most_type_tokens: as in `check_type_tokens`; None for no limit.

    Raises:
        InputError: what cannot be loaded.
    """

    def __init__(
        self,
        models: ModelSettings,
        place: int,
        batching: BatchingSettings,
        meter: Meter | None = None,
        device: str | None = None,
        most_found: int | None = None,
        most_type_tokens: int | None = None,
    ) -> None:
        self._most_type_tokens = most_type_tokens
        whole = composed_pipeline(models)
        own = replace(whole, stages=(whole.stages[place],))
        self._reader = Reader(batching, meter or Meter(), device, most_found)
        self._key, self._pipeline = of_one_version(
            own,
            lambda: (
                key_of(own.stages[0], models.precision),
                load_stages(own, batching.type_sets, (), device, load_checkpoint),
            ),
        )

    async def about(self) -> StageAbout:
        """What it is."""
        links, stages = self._pipeline.links, self._pipeline.stages
        version = stages[0].version if stages else links[0].versions.standardizer
        names = tuple(stages[0].names) if stages else ()
        chooses = any(stage.loaded.task.contexts for stage in stages)
        return StageAbout(self._key, version, names, chooses, links[0].about if links else None)

    async def answers(
        self, key: str, asked: Options | Choice | None, of_mentions: bool, items: Sequence[Any]
    ) -> list[Predicted] | Exception:
        """The answers to items, in order."""
        if key != self._key:
            return self._other()
        try:
            predictor: Any = await self._predictor(asked)
            return await self._reader.answers(predictor.standardizer if of_mentions else predictor, items)
        except InputError as error:
            return error

    async def with_contexts(self, key: str, documents: Sequence[Document]) -> list[Document] | Exception:
        """Answers with the contexts that were chosen for their sentences."""
        if key != self._key:
            return self._other()
        shown = self._pipeline.with_contexts
        return await asyncio.to_thread(lambda: [*map(shown, documents)])

    async def new_types(self, key: str, options: Options) -> dict[str, Any] | Exception:
        """The types among the options that its model never learned."""
        if key != self._key:
            return self._other()
        return dict(self._pipeline.stages[0].loaded.task.new_types(options))

    def check(self, stuck_after: float) -> None:
        """As `Reader.check`."""
        self._reader.check(stuck_after)

    async def close(self) -> None:
        """Stop working."""
        await self._reader.close()

    async def _predictor(self, asked: Options | Choice | None) -> AnyPredictor:
        if self._pipeline.links:
            return await self._reader.predictor(self._pipeline.links[0].stages, asked or Choice())
        stage = self._pipeline.recognizer or self._pipeline.typer
        if asked is None or stage is None:
            return self._pipeline.stages[0].predictor
        most = self._most_type_tokens
        if most is not None and isinstance(asked, Options) and stage.predictors.get(asked) is None:
            await asyncio.to_thread(check_type_tokens, stage, asked, most)
        return await self._reader.predictor(stage.predictors, asked)

    def _other(self) -> OtherModels:
        return OtherModels("the models of the stages are changing")
