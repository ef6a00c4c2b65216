"""Whether the replicas of a service have room."""

from __future__ import annotations

from rayner.errors import InputError
from rayner.runtime.cluster import is_one_machine
from rayner.serving.application_settings import ServeSettings, StageReplicas
from rayner.serving.composition import composed_pipeline, stage_names


def check_room(settings: ServeSettings) -> None:
    """Find out whether all replicas of a service can be on this machine at once.

    Raises:
        InputError: they cannot; on a cluster, a node may come.
    """
    import ray

    if not is_one_machine():
        return
    each = _deployments(settings)
    field = "stages" if settings.stages else "replicas"
    who = "the replicas that answer and those of the stages need" if settings.stages else "they need"
    sharing = (
        "`replicas: {cpus: 0}`, `stages: {NAME: {cpus: 0.5}}`"
        if settings.stages
        else "`replicas: {cpus: 0.5}`"
    )
    for key, hint in (("cpus", f"let them share: {sharing}"), ("gpus", "ask for less, such as `gpus: 0`")):
        name = key[:-1].upper()
        needed = _needed(each, key)
        if needed > (has := ray.cluster_resources().get(name, 0)):
            raise InputError(field, f"{who} {needed:g} {name}s, of {has:g}", hint)


def has_room_beside(settings: ServeSettings) -> bool:
    """Whether all replicas of a service can start beside what runs now."""
    import ray

    free, each = ray.available_resources(), _deployments(settings)
    units = {"cpus": ("CPU", 1), "gpus": ("GPU", 1), "memory": ("memory", 2**30)}
    return all(_needed(each, key) * unit <= free.get(name, 0) for key, (name, unit) in units.items())


def _deployments(settings: ServeSettings) -> list[StageReplicas]:
    names = stage_names(composed_pipeline(settings.answering(), settings.stages)) if settings.stages else ()
    return [settings.replicas, *map(settings.of_stage, names)]


def _needed(each: list[StageReplicas], key: str) -> float:
    return sum(max(1, replicas.min) * (getattr(replicas, key) or 0) for replicas in each)
