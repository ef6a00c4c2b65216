"""A pipeline whose stages are deployments of their own, as the replica sees it that answers over HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from typing import Any

from torch import nn

from rayner.config.base import AskedPrecision
from rayner.errors import InputError, RecipeError, first_line
from rayner.serving.application_settings import ModelSettings
from rayner.serving.knowledge import Choice, ServedKnowledgeBase, name_of
from rayner.serving.model_schemas import KnowledgeBaseOut
from rayner.serving.models import Models
from rayner.serving.predictors import PredictorCache
from rayner.serving.remote_stages import Ask, RemoteStage, StageAbout
from rayner.serving.schemas import KnowledgeBaseVersions
from rayner.serving.served_pipelines import about_stages, pipeline_settings, served_model, served_pipeline
from rayner.serving.served_stages import ServedStage
from rayner.tasks.checkpoint import Checkpoint, read_recipe
from rayner.tasks.registry import train_task
from rayner.tasks.stage_settings import StageSettings, check_types
from rayner.tasks.stages import PipelineSettings

log = logging.getLogger(__name__)

_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
"""Seconds between two questions to a stage: more after each that failed, up to the second number."""
_PATIENCE = 1800.0
"""Seconds for a stage to have the models of the file: a large one loads for minutes."""


def stage_names(settings: PipelineSettings) -> list[str]:
    """The names of a pipeline's stages, in order: each as its kind, those of entities numbered from the
    second on."""
    kinds = [str(stage.record.stage) for stage in settings.stages]
    counts = [kinds[: place + 1].count(kind) for place, kind in enumerate(kinds)]
    return [kind if count == 1 else f"{kind}-{count}" for kind, count in zip(kinds, counts, strict=True)]


def composed_pipeline(models: ModelSettings, asked: Collection[str] = ()) -> PipelineSettings:
    """The pipeline whose stages are to be deployments.

    Args:
        asked: the stages that `stages` of the file names.

    Raises:
        RecipeError: there are other models, or fewer stages, or none of a name.
        InputError: the pipeline cannot be read.
    """
    others = [name for name in ("models", "knowledge_bases") if getattr(models, name)]
    if others or models.checkpoint is None:
        what = f"is for one pipeline, and the file has `{others[0]}`" if others else "is for a `checkpoint`"
        raise RecipeError("stages", what, "name one pipeline file as `checkpoint`, and nothing beside it")
    if models.precision == "auto":
        what = "lets each stage choose for itself, and `precision` is auto"
        raise RecipeError("stages", what, "write float32 or bfloat16")
    pipeline = pipeline_settings(models.checkpoint, models.precision)
    if not pipeline.is_file or len(pipeline.stages) < 2:
        what = f"parts the stages of a pipeline file, and {models.checkpoint} has one stage"
        raise RecipeError("stages", what, "leave `stages` out")
    names = stage_names(pipeline)
    for name in asked:
        if name not in names:
            what = f"{models.checkpoint} has no such stage"
            raise RecipeError(f"stages.{name}", what, f"its stages are {', '.join(names)}")
    return pipeline


def key_of(stage: StageSettings, precision: AskedPrecision) -> str:
    """What tells a stage's answers from any others."""
    options = stage.options.model_dump_json(exclude=stage.options.paths())
    return f"{stage.version} {options} {precision}"


async def composed_models(models: ModelSettings, asks: Mapping[str, Ask], type_sets: int) -> Models:
    """The models, once each stage has them.

    Args:
        asks: how each stage is asked, by its name.

    Raises:
        InputError: they cannot be read, or do not go together, or a stage has not had them for half an hour.
        Exception: that of a stage that did not say for half an hour what it has.
    """
    pipeline = await asyncio.to_thread(composed_pipeline, models)
    names = stage_names(pipeline)
    if names != [*asks]:
        what = f"the deployments are {', '.join(asks)}, and {models.checkpoint} has {', '.join(names)}"
        raise RecipeError("stages", what, "write `checkpoint` into `args`, and deploy again")
    described = await asyncio.to_thread(about_stages, pipeline)
    keys = await asyncio.to_thread(lambda: [key_of(one, models.precision) for one in pipeline.stages])
    abouts = [await _about(name, asks[name], key) for name, key in zip(names, keys, strict=True)]
    check_types(pipeline.stages, abouts)
    stages: list[ServedStage] = []
    caches: list[PredictorCache[Any]] = []
    links: list[ServedKnowledgeBase] = []
    for setting, name, about in zip(pipeline.stages, names, abouts, strict=True):
        remote: Any = RemoteStage(asks[name], about.key, about.chooses_contexts)
        cache: PredictorCache[Any] = PredictorCache(remote.asking, type_sets)
        if about.knowledge_base is not None:
            links.append(_linked(setting, about.knowledge_base, cache))
            continue
        recipe = read_recipe(setting.checkpoint)
        # Its model is elsewhere.
        loaded = Checkpoint(recipe, train_task(recipe), nn.Module(), setting.checkpoint)
        stages.append(ServedStage(setting, about.version, loaded, remote, about.names))
        caches.append(cache)
    served = served_pipeline(pipeline, pipeline.version, described, stages, caches, links)
    bases: dict[str, ServedKnowledgeBase] = {}
    for base in links:
        bases[name_of(base.settings, bases)] = base
    return Models(served_model("", served, bases, tuple(bases), type_sets), {}, bases)


def _linked(
    settings: StageSettings, about: KnowledgeBaseOut, predictors: PredictorCache[Choice]
) -> ServedKnowledgeBase:
    versions = KnowledgeBaseVersions(index=about.index, standardizer=about.standardizer)
    return ServedKnowledgeBase(settings, versions, about, predictors)


async def _about(name: str, ask: Ask, key: str) -> StageAbout:
    end = time.monotonic() + _PATIENCE
    pause = _PAUSE
    while True:
        try:
            about: StageAbout = await ask("about")
        # Ray may lose a question while replicas change: these models would wait for the next change.
        except Exception as error:
            if time.monotonic() > end:
                raise
            line = first_line(error)
            log.warning("stages.%s: is asked again (%s: %s)", name, type(error).__name__, line)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            if about.key == key:
                return about
            if time.monotonic() > end:
                what = f"has had other models than the file for {_PATIENCE / 60:.0f} minutes"
                raise InputError(f"stages.{name}", what, "look why its new replicas do not start")
            pause = _PAUSE
        await asyncio.sleep(pause)
