"""What reads texts: checkpoints and pipeline files, each loaded once, with its version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from rayner.config.base import AskedPrecision
from rayner.data.schema import UNTYPED, Document, Mention
from rayner.errors import CheckpointError
from rayner.serving.knowledge import Choice, ServedKnowledgeBase, serve_knowledge_base
from rayner.serving.model_schemas import ModelOut, StageOut
from rayner.serving.predictors import AnyPredictor, PredictorCache, stage_predictors
from rayner.serving.served_stages import STAGE, AskedStage, ServedStage, chained
from rayner.tasks.base import fine_type_names, type_names
from rayner.tasks.checkpoint import Checkpoint
from rayner.tasks.predict import predict, stages_of
from rayner.tasks.predictor_options import Options
from rayner.tasks.stage_chain import chain
from rayner.tasks.stage_contexts import with_contexts
from rayner.tasks.stages import PipelineSettings, read_pipeline, suffix
from rayner.tasks.standardizer.stage import Entities

_TEXT = "The first words that a new model reads take longer than any others."
_FIRST = Document("", _TEXT, (Mention(4, 15, UNTYPED),))
T = TypeVar("T")
Load = Callable[[Path, str | None, AskedPrecision], Checkpoint]


@dataclass(frozen=True, eq=False)
class ServedPipeline:
    """A checkpoint, or the stages of a pipeline file.

    Args:
        version: of all that answers.
        about: each stage of the settings as it was loaded; the settings tell of the files as they are now.
        stages: in order, without those that link to a knowledge base.
        links: those, in order.
    """

    settings: PipelineSettings
    version: str
    about: Sequence[StageOut]
    stages: Sequence[ServedStage]
    recognizer: AskedStage | None
    typer: AskedStage | None
    links: Sequence[ServedKnowledgeBase]

    @property
    def typing(self) -> Sequence[ServedStage]:
        """Those that read texts whose mentions are known."""
        return [stage for stage in self.stages if stage.name in (STAGE["contexts"], STAGE["types"])]

    def with_contexts(self, document: Document) -> Document:
        """An answer with the contexts that were chosen for its sentences, where there are any."""
        return with_contexts(document, [stage.loaded for stage in self.stages])

    def versions(self) -> dict[str, str]:
        """Of the stages that read texts, by what replies call them."""
        found: dict[str, str] = {}
        for stage in self.stages:
            # Several stages may be of entities.
            found[stage.name] = "+".join(filter(None, (found.get(stage.name), stage.version)))
        return found


class Asked(NamedTuple):
    """What is asked of a pipeline: of the recognizer, of which knowledge bases, and how."""

    options: Options
    bases: tuple[str, ...] = ()
    choice: Choice = Choice()


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A pipeline, and what it links to.

    Args:
        name: by which requests ask for it; empty where it has none.
        linked: the knowledge bases of a request that names none; empty where it must.
        answering: predictors of all stages, and of knowledge bases after them.
        typing: predictors of the stages that read texts whose mentions are known.
    """

    name: str
    pipeline: ServedPipeline
    linked: tuple[str, ...]
    answering: PredictorCache[Asked]
    typing: PredictorCache[Options]

    def describe(self) -> ModelOut:
        """For `GET /v1/models`."""
        recognizer, typer = self.pipeline.recognizer, self.pipeline.typer
        return ModelOut(
            stages=[*self.pipeline.about],
            recognizer=recognizer.describe() if recognizer else None,
            typer=typer.describe_typer() if typer else None,
            linked=list(self.linked) if recognizer else [],
        )


def served_model(
    name: str,
    pipeline: ServedPipeline,
    bases: Mapping[str, ServedKnowledgeBase],
    linked: tuple[str, ...],
    type_sets: int,
) -> ServedModel:
    """A pipeline that links to the knowledge bases of a service."""

    def answering(asked: Asked) -> AnyPredictor:
        assert pipeline.recognizer is not None
        linking = [bases[name].stages.make(asked.choice) for name in asked.bases]
        return chain([*chained(pipeline.stages, pipeline.recognizer, asked.options), *linking])

    def typing(options: Options) -> AnyPredictor:
        assert pipeline.typer is not None
        return chain(chained(pipeline.typing, pipeline.typer, options))

    caches = PredictorCache(answering, type_sets), PredictorCache(typing, type_sets)
    return ServedModel(name, pipeline, linked, *caches)


def pipeline_settings(path: str, precision: AskedPrecision = None) -> PipelineSettings:
    """The checkpoint or the pipeline file that is to read texts.

    Raises:
        InputError: it cannot be read, or neither finds nor types mentions in texts.
    """
    settings = read_pipeline(path, precision=precision)
    if not {"mentions", "types"} & {stage.record.stage for stage in settings.stages}:
        tasks = " and ".join(stage.record.name for stage in settings.stages)
        what = f"task {tasks} neither finds nor types mentions in documents"
        add = (
            "add a stage of a recognizer, a tagger or a typer, or name the standardizer in `knowledge_bases`"
        )
        other = "name a recognizer, a tagger or a typer, or a pipeline file"
        raise CheckpointError(path, what, add if settings.is_file else other)
    return settings


def serve_pipeline(
    path: str,
    precision: AskedPrecision,
    type_sets: int,
    loaded: Sequence[ServedPipeline],
    device: str | None,
    load: Load,
) -> ServedPipeline:
    """The pipeline of a checkpoint or a file; of those that are loaded, what is the same is kept.

    Raises:
        InputError: as `pipeline_settings`, or what cannot be loaded.
    """
    settings = pipeline_settings(path, precision)
    version = settings.version
    for before in loaded:
        if (before.settings, before.version) == (settings, version):
            return before
    known = [base for before in loaded for base in before.links]
    return of_one_version(settings, lambda: load_stages(settings, type_sets, known, device, load))


def of_one_version(settings: PipelineSettings, made: Callable[[], T]) -> T:
    """What is made of the files of the settings, and made again where these were replaced meanwhile: it would
    answer by the old ones under the name of the new ones, and no later change of models would load these."""
    while True:
        version = settings.version
        found = made()
        if settings.version == version:
            return found


def load_stages(
    settings: PipelineSettings,
    type_sets: int,
    known: Sequence[ServedKnowledgeBase],
    device: str | None,
    load: Load,
) -> ServedPipeline:
    """The stages, which have read their first text; of the known knowledge bases, what is the same is kept.

    Raises:
        InputError: what cannot be loaded.
    """
    version, about = settings.version, about_stages(settings)
    pipeline = settings.pipeline(device, load)
    stages: list[ServedStage] = []
    links: list[ServedKnowledgeBase] = []
    for one, checkpoint, predictor in zip(
        settings.stages, pipeline.checkpoints, stages_of(pipeline.predictor), strict=True
    ):
        if isinstance(predictor, Entities):
            made = serve_knowledge_base(one, checkpoint, predictor)
            same = (b for b in known if (b.settings, b.versions) == (made.settings, made.versions))
            links.append(next(same, made))
        else:
            computed = one.version + suffix(checkpoint.precision)
            names = fine_type_names(predictor) or type_names(predictor)
            stages.append(ServedStage(one, computed, checkpoint, predictor, names))
    caches = [
        stage_predictors(stage.loaded, type_sets, stage.settings.options, stage.predictor) for stage in stages
    ]
    served = served_pipeline(settings, version, about, stages, caches, links)
    list(predict(pipeline.predictor, [_FIRST]))
    return served


def about_stages(settings: PipelineSettings) -> list[StageOut]:
    """The stages, by the files that are there now."""
    return [
        StageOut(stage=str(one.record.stage), task=one.record.name, version=one.version)
        for one in settings.stages
    ]


def served_pipeline(
    settings: PipelineSettings,
    version: str,
    about: Sequence[StageOut],
    stages: Sequence[ServedStage],
    predictors: Sequence[PredictorCache[Options]],
    links: Sequence[ServedKnowledgeBase],
) -> ServedPipeline:
    """The pipeline of its stages.

    Args:
        predictors: of each stage, by what is asked of it.
    """
    asked = {stage.name: AskedStage(stage, own) for stage, own in zip(stages, predictors, strict=True)}
    finds, types = (asked.get(STAGE[name]) for name in ("mentions", "types"))
    return ServedPipeline(settings, version, about, stages, finds, types, links)
