"""Knowledge bases to link to: an index, and the standardizer that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from rayner.config.base import AskedPrecision
from rayner.errors import InputError
from rayner.metrics.nil import OPERATING_POINTS
from rayner.serving.model_schemas import KnowledgeBaseOut
from rayner.serving.predictors import PredictorCache
from rayner.serving.schemas import KnowledgeBaseVersions
from rayner.tasks.checkpoint import Checkpoint, version_of
from rayner.tasks.stage_settings import StageSettings
from rayner.tasks.stages import suffix
from rayner.tasks.standardizer.linking_options import StandardizerOptions
from rayner.tasks.standardizer.predictor import NilChoice
from rayner.tasks.standardizer.stage import Entities

_KEPT = 64


class Choice(NamedTuple):
    """How many candidates an answer has, when it is NIL, and how many mentions are; None is as the stage's
    options say."""

    top_k: int | None = None
    operating_point: NilChoice | None = None
    nil_share: float | None = None


@dataclass(frozen=True, eq=False)
class ServedKnowledgeBase:
    """What answers for a knowledge base."""

    settings: StageSettings
    versions: KnowledgeBaseVersions
    about: KnowledgeBaseOut
    """For `GET /v1/models`."""
    stages: PredictorCache[Choice]
    """Those that link the mentions of documents; the standardizer of each answers for mentions alone."""
    loaded: Checkpoint | None = None
    """The standardizer's checkpoint, if it is held here."""

    @property
    def types(self) -> tuple[str, ...]:
        """Those whose mentions are linked to it; none for all."""
        return _options(self.settings).types or ()


def serve_knowledge_base(settings: StageSettings, loaded: Checkpoint, stage: Entities) -> ServedKnowledgeBase:
    """What answers for a knowledge base, by its stage of a pipeline.

    Args:
        loaded: the standardizer's checkpoint.
        stage: what links by the options of the settings.
    """
    options, base = _options(settings), stage.standardizer

    def make(choice: Choice) -> Entities:
        asked = {name: value for name, value in choice._asdict().items() if value is not None}
        chosen = options.model_copy(update=asked)
        linker = base.adjusted(chosen.top_k, chosen.operating_point, chosen.nil_share)
        return Entities(linker, options.types)

    stages = PredictorCache(make, _KEPT)
    stages.keep(Choice(), stage)
    versions = versions_of(settings, loaded.precision)
    about = KnowledgeBaseOut(
        index=versions.index,
        standardizer=versions.standardizer,
        entities=len(base.index.entities),
        types=list(options.types or ()),
        operating_points=list(OPERATING_POINTS) if base.calibrated else [],
        top_k=options.top_k,
        operating_point=options.operating_point or ("accuracy" if base.calibrated else "never"),
    )
    return ServedKnowledgeBase(settings, versions, about, stages, loaded)


def versions_of(settings: StageSettings, precision: AskedPrecision = None) -> KnowledgeBaseVersions:
    """Of the files as they are now, and of what the standardizer computes in.

    Raises:
        InputError: an index or a checkpoint that cannot be used.
    """
    index = "".join(settings.options.versions()).removeprefix("index-")
    return KnowledgeBaseVersions(
        index=index, standardizer=version_of(settings.checkpoint) + suffix(precision)
    )


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
    if not bases:
        hint = "serve a standardizer's checkpoint, or a pipeline file with a stage of entities"
        raise InputError("knowledge_base", "this service has none", hint)
    if name is None and len(bases) == 1:
        return tuple(bases)
    if name is None or name not in bases:
        what = "must be named" if name is None else f"there is no {name!r}"
        raise InputError("knowledge_base", what, f"one of {', '.join(bases)}")
    return (name,)


def default_bases(bases: Mapping[str, ServedKnowledgeBase]) -> tuple[str, ...]:
    """Those of a request that names none: the only one, or all, if each says which types are linked to it;
    none where one must be named."""
    return tuple(bases) if len(bases) == 1 or all(kb.types for kb in bases.values()) else ()


def _options(settings: StageSettings) -> StandardizerOptions:
    return cast(StandardizerOptions, settings.options)
