"""How much memory replicas take, by the files that they hold, so that Ray places no more than fit a node."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from rayner.runtime.elsewhere import Needs
from rayner.runtime.model_memory import held_by, memory_of, placed_by_memory
from rayner.serving.application_settings import (
    ApplicationSettings,
    ModelSettings,
    ReplicaSettings,
    StageReplicas,
)
from rayner.serving.composition import composed_pipeline, stage_names
from rayner.serving.models import base_settings
from rayner.serving.served_pipelines import pipeline_settings

log = logging.getLogger(__name__)
Application = TypeVar("Application", bound=ApplicationSettings)
Replicas = TypeVar("Replicas", bound=StageReplicas)

OVER_HTTP = ""
"""In place of a stage's name: the replicas that answer over HTTP."""


def deployments_of(settings: ApplicationSettings, models: ModelSettings) -> list[str]:
    """What an application deploys: what answers over HTTP, and the stages that are parted from it.

    Raises:
        InputError: as `composed_pipeline`.
    """
    return [OVER_HTTP, *(stage_names(composed_pipeline(models, settings.stages)) if settings.stages else [])]


def memory_of_replicas(settings: ApplicationSettings, models: ModelSettings) -> dict[str, float]:
    """GiB that are probable of a replica, by its stage; 0 where that cannot be known here, or the nodes lack
    room by it for one replica more than must run, which takes the place of another."""
    held = _held(settings, models)
    if held is None:
        return {}
    found: dict[str, float] = {}
    for name, paths in held.items():
        replicas = _replicas(settings, name)
        needs = Needs(replicas.cpus, replicas.gpus)
        asked = placed_by_memory(needs, memory_of(paths), max(1, replicas.min) + 1)
        found[name] = 0.0 if asked.memory is None else round(asked.memory / 2**30, 2)
    if len(found) > 1 and not _room_for_all(settings, found):
        return {}
    return found


def with_memory(settings: Application, memory: Mapping[str, float]) -> Application:
    """The settings, with the memory of those replicas for which they name none."""

    def own(replicas: Replicas, name: str) -> Replicas:
        given = replicas.memory
        return replicas.model_copy(update={"memory": memory.get(name, 0.0) if given is None else given})

    names = dict.fromkeys([*settings.stages, *(name for name in memory if name != OVER_HTTP)])
    stages = {name: own(settings.stages.get(name, StageReplicas()), name) for name in names}
    return settings.model_copy(update={"replicas": own(settings.replicas, OVER_HTTP), "stages": stages})


def _held(settings: ApplicationSettings, models: ModelSettings) -> dict[str, list[Path]] | None:
    """The files that the replicas of each stage hold; None where they are not to be found from here."""
    paths = [*models.checkpoints().values()]
    paths += [path for base in models.knowledge_bases.values() for path in (base.standardizer, base.index)]
    if any("://" in path or not Path(path).exists() for path in paths):
        return None
    if settings.stages:
        pipeline = composed_pipeline(models, settings.stages)
        own = zip(stage_names(pipeline), pipeline.stages, strict=True)
        return {OVER_HTTP: [], **{name: held_by([stage]) for name, stage in own}}
    read = [pipeline_settings(path) for path in models.checkpoints().values()]
    read += [base_settings(name, base) for name, base in models.knowledge_bases.items()]
    return {OVER_HTTP: [path for one in read for path in held_by(one.stages)]}


def _replicas(settings: ApplicationSettings, name: str) -> ReplicaSettings:
    return settings.of_stage(name) if name != OVER_HTTP else settings.replicas


def _room_for_all(settings: ApplicationSettings, memory: Mapping[str, float]) -> bool:
    """Whether all that must run fit the nodes together, and one more."""
    import ray

    needed = sum(max(1, _replicas(settings, name).min) * each for name, each in memory.items())
    needed += max(memory.values())
    has = sum(node["Resources"].get("memory", 0) for node in ray.nodes() if node["Alive"]) / 2**30
    if needed > has:
        log.warning("the nodes lack %.1f GiB for all stages: Ray places them without regard to it", needed)
    return needed <= has
