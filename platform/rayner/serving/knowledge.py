"""Knowledge bases to link to: an index, and the standardizer that made it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from rayner.config.base import AskedPrecision
from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.metrics.nil import OPERATING_POINTS
from rayner.serving.model_schemas import KnowledgeBaseOut
from rayner.serving.predictors import PredictorCache
from rayner.serving.schemas import KnowledgeBaseVersions
from rayner.tasks.checkpoint import Checkpoint, version_of
from rayner.tasks.stage_settings import StageSettings
from rayner.tasks.stages import suffix
from rayner.tasks.standardizer.options import StandardizerOptions
from rayner.tasks.standardizer.predictor import NilChoice, Standardizer
from rayner.tasks.standardizer.stage import Entities
from rayner.tasks.standardizer.task import StandardizerTask

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
    names_of: Callable[[Collection[str]], Mapping[str, str]]
    """The names of some entities of its index."""
    loaded: Checkpoint | None = None
    """The standardizer's checkpoint, if it is held here."""

    @property
    def types(self) -> tuple[str, ...]:
        """Those whose mentions are linked to it; none for all."""
        return _options(self.settings).types or ()

    def links(self, type_: str) -> bool:
        """Whether mentions of a type are linked to it."""
        own = _options(self.settings).types
        return own is None or type_ in own


def serve_knowledge_base(settings: StageSettings, loaded: Checkpoint, stage: Entities) -> ServedKnowledgeBase:
    """What answers for a knowledge base, by its stage of a pipeline.

    Args:
        loaded: the standardizer's checkpoint.
        stage: what links by the options of the settings.
    """
    options, base = _options(settings), stage.standardizer
    task = cast(StandardizerTask, loaded.task)

    def make(choice: Choice) -> Entities:
        asked = {name: value for name, value in choice._asdict().items() if value is not None}
        chosen = options.model_copy(update=asked)
        linker = Standardizer(
            base.index,
            base.encode,
            base.weight,
            task.fitted.nil,
            chosen.top_k,
            chosen.operating_point,
            task.nil_share(chosen),
            base.abbreviations,
            base.composites,
            base.reranker,
        )
        return Entities(linker, options.types)

    stages = PredictorCache(make, _KEPT)
    stages.keep(Choice(), stage)
    versions = versions_of(settings, loaded.precision)
    calibrated = task.fitted.nil is not None
    about = KnowledgeBaseOut(
        index=versions.index,
        standardizer=versions.standardizer,
        entities=len(base.index.entities),
        types=list(options.types or ()),
        operating_points=list(OPERATING_POINTS) if calibrated else [],
        top_k=options.top_k,
        operating_point=options.operating_point or ("accuracy" if calibrated else "never"),
    )
    return ServedKnowledgeBase(settings, versions, about, stages, base.index.entities.names_of, loaded)


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
    if name is None and len(bases) == 1:
        return tuple(bases)
    if name is None or name not in bases:
        what = "must be named" if name is None else f"there is no {name!r}"
        known = ", ".join(bases)
        raise InputError("knowledge_base", what, f"one of {known}" if known else "this service has none")
    return (name,)


def default_bases(bases: Mapping[str, ServedKnowledgeBase]) -> tuple[str, ...]:
    """Those of a request that names none: the only one, or all, if each says which types are linked to it;
    none where one must be named."""
    return tuple(bases) if len(bases) == 1 or all(kb.types for kb in bases.values()) else ()


def entity_names(
    documents: Iterable[Document], bases: Sequence[ServedKnowledgeBase]
) -> dict[tuple[str, str], str]:
    """The names of the candidates of all mentions, by the mention's type and the entity's id.

    Args:
        bases: in the order in which they linked; of several that link a type, the last one's answer counts.
    """
    ids: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for mention in document.mentions:
            ids[mention.type].update(one.entity_id for one in mention.candidates)
    names: dict[tuple[str, str], str] = {}
    for type_, wanted in ids.items():
        if wanted:
            # A stage of another package may have linked it.
            base = next((base for base in reversed(bases) if base.links(type_)), None)
            found = {} if base is None else base.names_of(wanted)
            names |= {(type_, entity_id): name for entity_id, name in found.items()}
    return names


def _options(settings: StageSettings) -> StandardizerOptions:
    return cast(StandardizerOptions, settings.options)
