"""Knowledge bases to link to: an index, and the standardizer that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torch import nn

from rayner.errors import InputError
from rayner.metrics.nil import OPERATING_POINTS
from rayner.retrieval.index_folder import version_of_index
from rayner.runtime.linking.loading import load_standardizer
from rayner.serving.predictors import PredictorCache
from rayner.serving.schemas import KnowledgeBaseOut, KnowledgeBaseVersions
from rayner.serving.settings import ServedBaseSettings
from rayner.tasks.checkpoint import version_of
from rayner.tasks.predict import predict
from rayner.tasks.standardizer.entities import Entities
from rayner.tasks.standardizer.predictor import TOP_K, NilChoice, Standardizer
from rayner.tasks.standardizer.task import StandardizerOptions, StandardizerTask

_KEPT = 64


class Choice(NamedTuple):
    """How many candidates an answer has, and when it is NIL."""

    top_k: int = TOP_K
    operating_point: NilChoice | None = None


@dataclass(frozen=True, eq=False)
class ServedKnowledgeBase:
    """What answers for a knowledge base."""

    settings: ServedBaseSettings
    versions: KnowledgeBaseVersions
    loaded: tuple[StandardizerTask, nn.Module]
    base: Standardizer
    stages: PredictorCache[Choice]
    """Those that link the mentions of documents; the standardizer of each answers for mentions alone."""

    def describe(self) -> KnowledgeBaseOut:
        """For `GET /v1/models`."""
        calibrated = self.loaded[0].fitted.nil is not None
        return KnowledgeBaseOut(
            index=self.versions.index,
            standardizer=self.versions.standardizer,
            entities=len(self.base.index.entities),
            types=list(self.settings.types),
            operating_points=list(OPERATING_POINTS) if calibrated else [],
        )


def load_knowledge_bases(
    settings: Mapping[str, ServedBaseSettings],
    old: Mapping[str, ServedKnowledgeBase],
    device: str | None,
) -> dict[str, ServedKnowledgeBase]:
    """The knowledge bases that the settings name; of the old ones, what is the same is kept.

    Raises:
        InputError: an index or a checkpoint that cannot be used.
    """
    checkpoints = {(kb.settings.standardizer, kb.versions.standardizer): kb.loaded for kb in old.values()}
    served: dict[str, ServedKnowledgeBase] = {}
    for name, given in settings.items():
        key = (given.standardizer, version_of(Path(given.standardizer)))
        versions = KnowledgeBaseVersions(index=version_of_index(Path(given.index)), standardizer=key[1])
        before = old.get(name)
        if before is not None and (before.settings, before.versions) == (given, versions):
            served[name] = before
            continue
        if key not in checkpoints:
            checkpoints[key] = load_standardizer(Path(given.standardizer), device)
        served[name] = _served(given, versions, checkpoints[key])
    return served


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
    if name is None and len(bases) > 1 and all(kb.settings.types for kb in bases.values()):
        return tuple(bases)
    return one_base(bases, name)


def _served(
    settings: ServedBaseSettings, versions: KnowledgeBaseVersions, loaded: tuple[StandardizerTask, nn.Module]
) -> ServedKnowledgeBase:
    task, model = loaded
    base = task.predictor(model, StandardizerOptions(index=Path(settings.index)))

    def make(choice: Choice) -> Entities:
        asked = Standardizer(base.index, base.encode, base.weight, task.fitted.nil, *choice)
        return Entities(asked, settings.types or None)

    list(predict(base, ["The first name takes longer than any other."]))
    return ServedKnowledgeBase(settings, versions, loaded, base, PredictorCache(make, _KEPT))
