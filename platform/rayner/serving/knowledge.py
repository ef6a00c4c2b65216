"""Knowledge bases to link to: an index, and the standardizer that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from rayner.errors import InputError
from rayner.metrics.nil import OPERATING_POINTS
from rayner.serving.predictors import PredictorCache
from rayner.serving.schemas import KnowledgeBaseOut, KnowledgeBaseVersions
from rayner.tasks.checkpoint import Checkpoint, version_of
from rayner.tasks.stages import StageSettings
from rayner.tasks.standardizer.entities import Entities
from rayner.tasks.standardizer.predictor import NilChoice, Standardizer
from rayner.tasks.standardizer.task import StandardizerOptions, StandardizerTask

_KEPT = 64


class Choice(NamedTuple):
    """How many candidates an answer has, and when it is NIL; None is as the stage's options say."""

    top_k: int | None = None
    operating_point: NilChoice | None = None


@dataclass(frozen=True, eq=False)
class ServedKnowledgeBase:
    """What answers for a knowledge base."""

    settings: StageSettings
    versions: KnowledgeBaseVersions
    loaded: Checkpoint
    base: Standardizer
    stages: PredictorCache[Choice]
    """Those that link the mentions of documents; the standardizer of each answers for mentions alone."""

    @property
    def types(self) -> tuple[str, ...]:
        """Those whose mentions are linked to it; none for all."""
        return _options(self.settings).types or ()

    def describe(self) -> KnowledgeBaseOut:
        """For `GET /v1/models`."""
        calibrated = cast(StandardizerTask, self.loaded.task).fitted.nil is not None
        return KnowledgeBaseOut(
            index=self.versions.index,
            standardizer=self.versions.standardizer,
            entities=len(self.base.index.entities),
            types=list(self.types),
            operating_points=list(OPERATING_POINTS) if calibrated else [],
        )


def serve_knowledge_base(settings: StageSettings, loaded: Checkpoint, stage: Entities) -> ServedKnowledgeBase:
    """What answers for a knowledge base, by its stage of a pipeline.

    Args:
        loaded: the standardizer's checkpoint.
        stage: what links by the options of the settings.
    """
    options, base = _options(settings), stage.standardizer
    nil = cast(StandardizerTask, loaded.task).fitted.nil

    def make(choice: Choice) -> Entities:
        top_k = choice.top_k or options.top_k
        point = choice.operating_point or options.operating_point
        return Entities(Standardizer(base.index, base.encode, base.weight, nil, top_k, point), options.types)

    stages = PredictorCache(make, _KEPT)
    stages.keep(Choice(), stage)
    return ServedKnowledgeBase(settings, versions_of(settings), loaded, base, stages)


def versions_of(settings: StageSettings) -> KnowledgeBaseVersions:
    """Of the files as they are now.

    Raises:
        InputError: an index or a checkpoint that cannot be used.
    """
    index = "".join(settings.options.versions()).removeprefix("index-")
    return KnowledgeBaseVersions(index=index, standardizer=version_of(settings.checkpoint))


def name_of(settings: StageSettings, taken: Mapping[str, ServedKnowledgeBase]) -> str:
    """The name of a pipeline's knowledge base: that of its index's folder, numbered where taken."""
    folder = _options(settings).index or Path("knowledge_base")
    names = [folder.name, *(f"{folder.name}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def one_base(bases: Mapping[str, ServedKnowledgeBase], name: str | None) -> tuple[str, ...]:
    """The knowledge base that a request means, by its name or because it is the only one.

    Raises:
        InputError: there is none of this name, or it must be named.
    """
    if name is None and len(bases) == 1:
        return tuple(bases)
    if name is None or name not in bases:
        what = "must be named" if name is None else f"there is no {name!r}"
        known = ", ".join(bases)
        raise InputError("knowledge_base", what, f"one of {known}" if known else "this service has none")
    return (name,)


def bases_of(bases: Mapping[str, ServedKnowledgeBase], name: str | None) -> tuple[str, ...]:
    """As `one_base`, but without a name: all of them, if each says which types are linked to it."""
    if name is None and len(bases) > 1 and all(kb.types for kb in bases.values()):
        return tuple(bases)
    return one_base(bases, name)


def _options(settings: StageSettings) -> StandardizerOptions:
    return cast(StandardizerOptions, settings.options)
