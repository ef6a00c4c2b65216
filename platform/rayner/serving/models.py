"""The models that answer now: loaded whole, swapped whole, each with its version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from rayner.config.base import AskedPrecision
from rayner.data.fine_types import UNTYPED
from rayner.data.schema import Document, Mention
from rayner.errors import CheckpointError
from rayner.models.precision import default_precision
from rayner.serving.application_settings import ModelSettings, ServedBaseSettings
from rayner.serving.knowledge import (
    Choice,
    ServedKnowledgeBase,
    default_bases,
    name_of,
    serve_knowledge_base,
    versions_of,
)
from rayner.serving.predictors import AnyPredictor, PredictorCache, stage_predictors
from rayner.serving.schemas import ModelsReply, StageOut, Versions
from rayner.serving.served_stages import STAGE, AskedStage, ServedStage, chained
from rayner.tasks.base import Options
from rayner.tasks.checkpoint import Checkpoint, load_checkpoint, version_of
from rayner.tasks.encoder_task import default_device
from rayner.tasks.predict import predict, stages_of
from rayner.tasks.registry import task_of
from rayner.tasks.stage_chain import chain
from rayner.tasks.stage_contexts import with_contexts
from rayner.tasks.stages import PipelineSettings, read_pipeline, suffix
from rayner.tasks.standardizer.stage import Entities

_TEXT = "The first words that a new model reads take longer than any others."
_FIRST = Document("", _TEXT, (Mention(4, 15, UNTYPED),))
Load = Callable[[Path, str | None, AskedPrecision], Checkpoint]


@dataclass(frozen=True, eq=False)
class ServedPipeline:
    """What reads texts: a checkpoint, or the stages of a pipeline file.

    Args:
        version: of all that answers.
        stages: in order, without those that link to a knowledge base.
        links: those, in order.
    """

    settings: PipelineSettings
    version: str
    stages: Sequence[ServedStage]
    recognizer: AskedStage | None
    typer: AskedStage | None
    links: Sequence[ServedKnowledgeBase]

    @property
    def typing(self) -> Sequence[ServedStage]:
        """Those that read texts whose mentions are known."""
        return [stage for stage in self.stages if stage.name in (STAGE["contexts"], STAGE["types"])]

    def with_contexts(self, document: Document) -> Document:
        """An answer with the contexts that its sentences were read with, where there are any."""
        return with_contexts(document, [stage.loaded for stage in self.stages])


class Asked(NamedTuple):
    """What is asked of a pipeline: of the recognizer, of which knowledge bases, and how."""

    options: Options
    bases: tuple[str, ...] = ()
    choice: Choice = Choice()


@dataclass(frozen=True, eq=False)
class Models:
    """All that answers. A request takes it once and keeps it to its end.

    Args:
        linked: the names of the knowledge bases that the pipeline itself links to.
        answering: predictors of all stages, and of knowledge bases after them.
        typing: predictors of the stages that read texts whose mentions are known.
    """

    pipeline: ServedPipeline | None
    knowledge_bases: Mapping[str, ServedKnowledgeBase]
    linked: tuple[str, ...]
    answering: PredictorCache[Asked]
    typing: PredictorCache[Options]

    def versions(self, *, texts: bool = False, bases: tuple[str, ...] = ()) -> Versions:
        """Of what made a reply: of the stages that read texts, and of knowledge bases."""
        read: dict[str, Any] = self._read_versions() if texts else {}
        return Versions(**read, knowledge_bases={name: self.knowledge_bases[name].versions for name in bases})

    def flat_versions(self) -> dict[str, str]:
        """Of everything, by a name each, for metrics."""
        found = self._read_versions()
        for name, served in self.knowledge_bases.items():
            found |= {f"index {name}": served.versions.index}
            found |= {f"standardizer {name}": served.versions.standardizer}
        return found

    def describe(self, failed_change: str | None) -> ModelsReply:
        """For `GET /v1/models`."""
        recognizer = self.pipeline.recognizer if self.pipeline else None
        return ModelsReply(
            stages=[
                StageOut(stage=str(s.record.stage), task=s.record.name, version=s.version)
                for s in (self.pipeline.settings.stages if self.pipeline else ())
            ],
            recognizer=recognizer.describe() if recognizer else None,
            knowledge_bases={name: kb.describe() for name, kb in self.knowledge_bases.items()},
            linked=list(self.linked or default_bases(self.knowledge_bases)) if recognizer else [],
            failed_change=failed_change,
        )

    def _read_versions(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for stage in self.pipeline.stages if self.pipeline else ():
            # Several stages may be of entities.
            found[stage.name] = "+".join(filter(None, (found.get(stage.name), stage.version)))
        return found


def load_models(
    settings: ModelSettings, type_sets: int, old: Models | None = None, device: str | None = None
) -> Models:
    """The models that the settings name; of `old`, what is the same is kept.

    Raises:
        InputError: what cannot be read, or does not answer what it is named for.
    """
    load = _remembering(old)
    pipeline = None
    if settings.checkpoint is not None:
        pipeline = _pipeline(settings.checkpoint, settings.precision, type_sets, old, device, load)
    bases = _knowledge_bases(settings.knowledge_bases, settings.precision, old, device, load)
    linked: list[str] = []
    for base in pipeline.links if pipeline else ():
        linked.append(name_of(base.settings, bases))
        bases[linked[-1]] = base

    def answering(asked: Asked) -> AnyPredictor:
        assert pipeline is not None
        assert pipeline.recognizer is not None
        linking = [bases[name].stages.make(asked.choice) for name in asked.bases]
        return chain([*chained(pipeline.stages, pipeline.recognizer, asked.options), *linking])

    def typing(options: Options) -> AnyPredictor:
        assert pipeline is not None
        assert pipeline.typer is not None
        return chain(chained(pipeline.typing, pipeline.typer, options))

    caches = PredictorCache(answering, 4 * type_sets), PredictorCache(typing, type_sets)
    return Models(pipeline, bases, tuple(linked), *caches)


def served_pipeline(path: str, precision: AskedPrecision = None) -> PipelineSettings:
    """The checkpoint or the pipeline file that is to read texts.

    Raises:
        InputError: it cannot be read, or neither finds nor types mentions in texts.
    """
    settings = read_pipeline(path, precision=precision)
    if not settings.finds_mentions and settings.stages[0].record.stage != "types":
        what = f"a {settings.stages[0].record.name} neither finds nor types mentions in documents"
        raise CheckpointError(path, what, "name a recognizer, a tagger or a typer, or a pipeline file")
    return settings


def served_base(
    name: str, settings: ServedBaseSettings, precision: AskedPrecision = None
) -> PipelineSettings:
    """The standardizer of a knowledge base that is named in the settings.

    Raises:
        InputError: it cannot be read, or is none.
    """
    read = read_pipeline(settings.standardizer)
    if read.is_file or read.stages[0].record.stage != "entities":
        hint = f"name the one that made the index of knowledge_bases.{name}"
        raise CheckpointError(settings.standardizer, "is no checkpoint of a standardizer", hint)
    options = {"index": settings.index, "types": settings.types or None}
    return read_pipeline(settings.standardizer, options, precision)


def _pipeline(
    path: str,
    precision: AskedPrecision,
    type_sets: int,
    old: Models | None,
    device: str | None,
    load: Load,
) -> ServedPipeline:
    settings = served_pipeline(path, precision)
    version = settings.version
    before = old.pipeline if old else None
    if before is not None and (before.settings, before.version) == (settings, version):
        return before
    pipeline = settings.pipeline(device, load)
    stages: list[ServedStage] = []
    links: list[ServedKnowledgeBase] = []
    for one, loaded, predictor in zip(
        settings.stages, pipeline.checkpoints, stages_of(pipeline.predictor), strict=True
    ):
        if isinstance(predictor, Entities):
            links.append(serve_knowledge_base(one, loaded, predictor))
        else:
            computed = "+".join([version_of(one.checkpoint), *one.of_contexts]) + suffix(loaded.precision)
            stages.append(ServedStage(one, computed, loaded, predictor))
    asked = {
        stage.name: AskedStage(
            stage,
            stage_predictors(stage.loaded, type_sets, stage.settings.options, stage.predictor),
        )
        for stage in stages
        if stage.name in (STAGE["mentions"], STAGE["types"])
    }
    finds, types = (asked.get(STAGE[name]) for name in ("mentions", "types"))
    served = ServedPipeline(settings, version, stages, finds, types, links)
    list(predict(pipeline.predictor, [_FIRST]))
    return served


def _knowledge_bases(
    settings: Mapping[str, ServedBaseSettings],
    precision: AskedPrecision,
    old: Models | None,
    device: str | None,
    load: Load,
) -> dict[str, ServedKnowledgeBase]:
    served: dict[str, ServedKnowledgeBase] = {}
    wanted = _wanted(precision, device)
    for name, given in settings.items():
        read = served_base(name, given, precision)
        (stage,) = read.stages
        before = old.knowledge_bases.get(name) if old else None
        if before is not None:
            computed = before.loaded.precision
            same = (before.settings, before.versions) == (stage, versions_of(stage, computed))
            if same and wanted in ("auto", computed):
                served[name] = before
                continue
        pipeline = read.pipeline(device, load)
        (loaded,) = pipeline.checkpoints
        as_stage = cast(Entities, task_of(loaded.recipe).as_stage(pipeline.predictor, stage.options))
        served[name] = serve_knowledge_base(stage, loaded, as_stage)
        list(predict(pipeline.predictor, ["The first name takes longer than any other."]))
    return served


def _wanted(precision: AskedPrecision, device: str | None) -> AskedPrecision:
    return precision or default_precision(device or default_device())


def _remembering(old: Models | None) -> Load:
    """Loads what is neither loaded yet nor answers already: models are shared, and kept over a swap."""
    known: dict[tuple[Path, str], Checkpoint] = {}
    if old is not None:
        stages = old.pipeline.stages if old.pipeline else ()
        known = {(stage.settings.checkpoint, stage.version): stage.loaded for stage in stages}
        for base in old.knowledge_bases.values():
            known[base.settings.checkpoint, base.versions.standardizer] = base.loaded

    def load(folder: Path, device: str | None, precision: AskedPrecision) -> Checkpoint:
        wanted = _wanted(precision, device)
        version = version_of(folder)
        names = ("float32", "bfloat16", "float16") if wanted == "auto" else (wanted,)
        for name in names:
            if (found := known.get((folder, version + suffix(name)))) is not None:
                return found
        found = load_checkpoint(folder, device, wanted)
        known[folder, version + suffix(found.precision)] = found
        return found

    return load
