"""A stage that is a deployment of its own, as those see it who ask it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from rayner.data.schema import Document
from rayner.serving.knowledge import Choice
from rayner.serving.model_schemas import KnowledgeBaseOut
from rayner.serving.problems import NotReady
from rayner.tasks.predict import Predicted
from rayner.tasks.predictor_options import Options

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
Answer = Callable[[S, R], Coroutine[Any, Any, T]]

_PATIENCE = 60.0
"""Seconds for all stages to have the same models, where each is a deployment of its own."""
_PAUSE = 0.2

Ask = Callable[..., Awaitable[Any]]
"""`ask(method, *arguments)` of a deployment, whose methods are those of `StageService`."""


class OtherModels(NotReady):
    """A stage has other models than those that it was asked for: one of both is about to change."""


class StageAbout(NamedTuple):
    """What a stage says of itself.

    Args:
        key: what tells its answers from any others.
        version: as replies name it.
        names: the types that it finds.
        chooses_contexts: whether it reads sentences with contexts of its own choice.
        knowledge_base: that which it links to.
    """

    key: str
    version: str
    names: tuple[str, ...]
    chooses_contexts: bool
    knowledge_base: KnowledgeBaseOut | None


@dataclass(frozen=True)
class RemoteStage:
    """A stage that another deployment holds, with what is asked of it; None is as the pipeline file says.

    Args:
        key: of the models that are meant.
        of_mentions: whether it is given mentions in place of documents.
    """

    ask: Ask
    key: str
    chooses_contexts: bool = False
    asked: Options | Choice | None = None
    of_mentions: bool = False

    def asking(self, asked: Options | Choice) -> RemoteStage:
        """The stage, asked for something else."""
        return replace(self, asked=asked)

    @property
    def standardizer(self) -> RemoteStage:
        """What answers for mentions alone."""
        return replace(self, of_mentions=True)

    async def answers(self, items: Sequence[Any]) -> list[Predicted]:
        """The answers to items, in order.

        Raises:
            OtherModels: it has models of another key.
            InputError: what is asked of it cannot be had.
        """
        return await self._told("answers", self.asked, self.of_mentions, items)

    async def with_contexts(self, documents: Sequence[Document]) -> list[Document]:
        """Answers with the contexts that were chosen for their sentences.

        Raises:
            OtherModels: it has models of another key.
        """
        return await self._told("with_contexts", documents)

    async def new_types(self, options: Options) -> dict[str, Any]:
        """The types among the options that its model never learned.

        Raises:
            OtherModels: it has models of another key.
        """
        return await self._told("new_types", options)

    async def _told(self, method: str, *arguments: Any) -> Any:
        found = await self.ask(method, self.key, *arguments)
        if isinstance(found, Exception):
            raise found
        return found


def by_one_set_of_models(answer: Answer[S, R, T]) -> Answer[S, R, T]:
    """Begin a request again if a stage has other models than the one before it."""

    @wraps(answer)
    async def answered(service: S, request: R) -> T:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return await answer(service, request)
            except OtherModels:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(_PAUSE)

    return answered
