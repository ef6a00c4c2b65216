"""From requests to replies, by the models of the moment."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from rayner.config.documents import described, first_repeated
from rayner.data.schema import Document
from rayner.errors import InputError, RaynerError
from rayner.serving.application_settings import (
    ApplicationSettings,
    ModelSettings,
    parse_settings,
)
from rayner.serving.composition import composed_models
from rayner.serving.knowledge import Choice, one_base
from rayner.serving.metrics import Meter
from rayner.serving.model_schemas import ModelsReply
from rayner.serving.models import Models, load_models
from rayner.serving.predictors import PredictorCache
from rayner.serving.problems import NotReady, TooLarge
from rayner.serving.reader import Reader, aside
from rayner.serving.remote_stages import Ask, RemoteStage, by_one_set_of_models
from rayner.serving.replies import (
    annotate_reply,
    documents_of,
    marked_documents_of,
    recognize_reply,
    standardize_reply,
    type_reply,
)
from rayner.serving.request_limits import check_candidates, check_linked, check_texts, check_type_tokens
from rayner.serving.schemas import (
    AnnotateReply,
    AnnotateRequest,
    RecognizeReply,
    RecognizeRequest,
    StandardizeReply,
    StandardizeRequest,
)
from rayner.serving.served_pipelines import Asked, ServedModel, ServedPipeline
from rayner.serving.served_stages import AskedStage, new_types
from rayner.serving.typing_schemas import TypeReply, TypeRequest
from rayner.tasks.predict import Predicted
from rayner.tasks.predictor_options import Options

log = logging.getLogger(__name__)
T = TypeVar("T")
_MANY = 1000
"""Mentions and candidates from which on a reply takes so long that other requests would wait for it."""


class Service:
    """What a replica does, with or without Ray.

    Args:
        settings: limits and batching.
        meter: where it counts.
        device: where models run; a GPU where there is one.
        stages: how the stages of a pipeline are asked that other deployments hold, by their names.

    Attributes:
        failed_change: why the last change of models did not come in, if it did not.
    """

    def __init__(
        self,
        settings: ApplicationSettings,
        meter: Meter | None = None,
        device: str | None = None,
        stages: Mapping[str, Ask] | None = None,
    ) -> None:
        self.settings = settings
        self._meter = meter or Meter()
        self._device = device
        self._reader = Reader(settings.batching, self._meter, device, settings.limits.found)
        self._stages = stages
        self._models: Models | None = None
        self._loading = asyncio.Lock()
        self._change: asyncio.Task[None] | None = None
        self.failed_change: str | None = None

    @property
    def models(self) -> Models:
        """What answers now.

        Raises:
            NotReady: nothing was loaded yet.
        """
        if self._models is None:
            raise NotReady("the models are still loading")
        return self._models

    async def load(self, settings: ModelSettings | Mapping[str, Any]) -> None:
        """Load models beside those that answer, then put them in their place; requests go on meanwhile.

        A change that fails is logged, counted and shown by `GET /v1/models`; the models before it go on. One
        that waits for the stages of other deployments does so beside the caller, until the next change.

        Args:
            settings: which ones, or the keys and values of `user_config`, of which some may be wrong.

        Raises:
            InputError: the very first models cannot be loaded.
        """
        if not self._stages or self._models is None:
            await self._load(settings)
            return
        # Ray Serve tells a replica of no change before the one before it is through, and stages may never
        # have those models: they do not load, or the file was changed again.
        if self._change is not None:
            self._change.cancel()
        self._change = asyncio.create_task(self._load(settings))

    async def _load(self, settings: ModelSettings | Mapping[str, Any]) -> None:
        async with self._loading:
            try:
                if not isinstance(settings, ModelSettings):
                    settings = parse_settings(ModelSettings, settings, "user_config")
                new = await self._loaded(settings)
            except Exception as error:
                self.failed_change = str(error)
                if self._models is None:
                    raise
                known = isinstance(error, RaynerError)
                log.error("the new models do not load; the old ones go on: %s", error, exc_info=not known)
                self._meter.swapped(self._models.flat_versions(), failed=True)
                return
            self._models, self.failed_change = new, settings.refused
            self._meter.swapped(new.flat_versions(), failed=False)

    async def _loaded(self, settings: ModelSettings) -> Models:
        type_sets = self.settings.batching.type_sets
        if self._stages:
            return await composed_models(settings, self._stages, type_sets)
        return await asyncio.to_thread(load_models, settings, type_sets, self._models, self._device)

    def check(self) -> None:
        """Raise NotReady unless there are models and they answer in time; their versions are metrics."""
        self._meter.answering(self.models.flat_versions())
        self._reader.check(self.settings.replicas.stuck_after)

    def describe(self) -> ModelsReply:
        """What answers now."""
        return self.models.describe(self.failed_change)

    @by_one_set_of_models
    async def recognize(self, request: RecognizeRequest) -> RecognizeReply:
        """Find mentions.

        Raises:
            TooLarge: more documents, characters, types or found spans than the limits allow.
            InputError: as `Models.asked`, or options that the recognizer does not have.
        """
        return await self._found("recognize", request, recognize_reply)

    @by_one_set_of_models
    async def type_mentions(self, request: TypeRequest) -> TypeReply:
        """Name the fine types of mentions.

        Raises:
            TooLarge: more documents, characters, mentions or types than the limits allow.
            InputError: as `Models.asked`, a mention that is not within its text, or a type that the typer
                cannot know.
        """
        began = time.perf_counter()
        check_texts(request, self.settings.limits)
        models = self.models
        model, typer = models.asked(request.model, "typer")
        pipeline = model.pipeline
        options = options_of(request, typer)
        documents = marked_documents_of(request.documents)
        found = await self._read(request, model, typer, options, documents)
        versions = models.versions({stage.name: stage.version for stage in pipeline.typing})
        unlearned = await new_types(pipeline.typing, typer, options)
        self._count("type", model, found, began)
        return type_reply(found, unlearned, versions)

    @by_one_set_of_models
    async def annotate(self, request: AnnotateRequest) -> AnnotateReply:
        """Find mentions and link them.

        Raises:
            TooLarge: as `recognize`, or more candidates than the limits allow.
            InputError: as `recognize`, or as `one_base`.
        """
        return await self._found("annotate", request, annotate_reply)

    @by_one_set_of_models
    async def standardize(self, request: StandardizeRequest) -> StandardizeReply:
        """Name the entities of mentions.

        Raises:
            TooLarge: more mentions, characters or candidates than the limits allow.
            InputError: as `one_base`, or an operating point or a share of NIL without a calibration.
        """
        began = time.perf_counter()
        if len(request.mentions) > (most := self.settings.limits.mentions):
            raise TooLarge("mentions", f"{len(request.mentions):,} mentions", f"send {most:,} at most")
        if (characters := sum(map(len, request.mentions))) > (most := self.settings.limits.characters):
            raise TooLarge("mentions", f"{characters:,} characters", f"send {most:,} at most")
        models = self.models
        (name,) = one_base(models.knowledge_bases, request.knowledge_base)
        top_k = request.top_k or models.knowledge_bases[name].about.top_k
        check_candidates(len(request.mentions) * top_k, self.settings.limits.candidates)
        choice = Choice(request.top_k, request.operating_point, request.nil_share)
        stage: Any = await self._reader.predictor(models.knowledge_bases[name].stages, choice)
        answers = [found.out for found in await self._reader.answers(stage.standardizer, request.mentions)]
        linked = sum(answer.entity_id is not None for answer in answers)
        self._meter.answered("standardize", "", len(answers), 0, linked, time.perf_counter() - began)
        made = partial(standardize_reply, answers, models.versions(bases=(name,)))
        return await aside(made, sum(len(answer.candidates) for answer in answers) > _MANY)

    async def close(self) -> None:
        """Stop working."""
        if self._change is not None:
            self._change.cancel()
        await self._reader.close()

    async def _found(self, endpoint: str, request: RecognizeRequest, reply: Callable[..., T]) -> T:
        began = time.perf_counter()
        check_texts(request, self.settings.limits)
        models = self.models
        model, recognizer = models.asked(request.model, "recognizer")
        pipeline = model.pipeline
        options = options_of(request, recognizer, overlap=request.overlap)
        asked = Asked(options)
        if isinstance(request, AnnotateRequest):
            choice = Choice(request.top_k, request.operating_point, request.nil_share)
            asked = Asked(options, models.bases_of(model, request.knowledge_base), choice)
        linking = [models.knowledge_bases[name].about for name in asked.bases]
        check = partial(check_linked, linking, asked.choice.top_k, self.settings.limits.candidates)
        documents = documents_of(request.documents)
        found = await self._read(request, model, recognizer, asked, documents, check)
        if request.contexts:
            found = await _with_contexts(found, pipeline)
        versions = models.versions(pipeline.versions(), asked.bases)
        unlearned = await new_types(pipeline.stages, recognizer, options)
        self._count(endpoint, model, found, began)
        made = partial(reply, found, unlearned, versions, request.contexts)
        return await aside(made, _is_long(found))

    async def _read(
        self,
        request: RecognizeRequest | TypeRequest,
        model: ServedModel,
        stage: AskedStage,
        asked: Asked | Options,
        documents: Sequence[Document],
        check: Callable[[Sequence[Predicted]], None] = lambda _: None,
    ) -> list[Predicted]:
        with _types_by_place(request):
            kept: PredictorCache[Any] = model.answering if isinstance(asked, Asked) else model.typing
            options = asked.options if isinstance(asked, Asked) else asked
            if request.types is not None and kept.get(asked) is None:
                # Beside the model's thread, in which one piece of work holds up all others.
                await asyncio.to_thread(check_type_tokens, stage, options, self.settings.limits.type_tokens)
            predictor = await self._reader.predictor(kept, asked)
            return await self._reader.answers(predictor, documents, check)

    def _count(self, endpoint: str, model: ServedModel, found: Sequence[Predicted], began: float) -> None:
        """Once a request, at its end: one that begins anew with other models is one."""
        mentions = sum(len(document.mentions) for document, _ in found)
        windows = sum(windows for _, windows in found)
        seconds = time.perf_counter() - began
        self._meter.answered(endpoint, model.name, len(found), windows, mentions, seconds)


def _is_long(found: Sequence[Predicted]) -> bool:
    """Whether other requests would wait while a reply is made of it."""
    mentions = (mention for document, _ in found for mention in document.mentions)
    return sum(1 + len(mention.candidates) for mention in mentions) > _MANY


def options_of(request: RecognizeRequest | TypeRequest, stage: AskedStage, **more: Any) -> Options:
    """What the request asks of a stage; a bare name of a learned type means that type.

    Raises:
        InputError: a type that occurs twice.
    """
    types = None
    if request.types is not None:
        names = [given.name for given in request.types]
        if twice := first_repeated(names):
            _, second = twice
            raise InputError(f"types.{second}.name", f"{names[second]!r} occurs twice", "name each type once")
        types = tuple(described((given.settings() for given in request.types), stage.known))
    return stage.options(types=types, shift=request.shift, **more)


async def _with_contexts(found: Sequence[Predicted], pipeline: ServedPipeline) -> list[Predicted]:
    """Those of a checkpoint's own recipe are not in its answers; to choose them anew takes long."""
    remote = [stage.predictor for stage in pipeline.stages if isinstance(stage.predictor, RemoteStage)]
    if chooses := next((stage for stage in remote if stage.chooses_contexts), None):
        documents = await chooses.with_contexts([out for out, _ in found])
        return [Predicted(out, count) for out, (_, count) in zip(documents, found, strict=True)]
    shown = pipeline.with_contexts
    return await asyncio.to_thread(lambda: [Predicted(shown(out), count) for out, count in found])


@contextmanager
def _types_by_place(request: RecognizeRequest | TypeRequest) -> Iterator[None]:
    """Name a type of which something is wrong by its place in the request."""
    try:
        yield
    except InputError as error:
        prefix, _, name = error.where.partition(": ")
        place = next((i for i, given in enumerate(request.types or ()) if given.name == name), None)
        if prefix != "types" or place is None:
            raise
        raise InputError(f"types.{place}", f"{name} {error.what}", error.hint) from None
