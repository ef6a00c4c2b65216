"""The Serve application: what `serve run`, `serve deploy` and KubeRay build, and `rayner serve` too."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray import serve
from ray.serve import Application, Deployment

from rayner.errors import RecipeError
from rayner.serving.application_settings import (
    ApplicationSettings,
    ModelSettings,
    ReplicaSettings,
    ServeSettings,
    parse_settings,
)
from rayner.serving.composition import composed_pipeline, stage_names
from rayner.serving.deployment import Replica, StageReplica
from rayner.serving.replica_memory import memory_of_replicas, with_memory

NAME = "rayner"

_Versioned = Callable[[Deployment, Mapping[str, Any]], Deployment]

log = logging.getLogger(__name__)


def build(args: dict[str, Any]) -> Application:
    """The application of `args`, whose keys are those of the YAML file of `rayner serve` without `http`.

    What answers, `checkpoint`, `models` and `knowledge_bases`, may stand here or in the deployment's
    `user_config`. There, a change of them swaps them within the running replicas; here, it replaces the
    replicas, and the memory of one is estimated.

    Raises:
        RecipeError: the key that is wrong and the nearest known one.
    """
    given = {key: value for key, value in args.items() if key in ModelSettings.model_fields}
    rest = {key: value for key, value in args.items() if key not in given}
    settings = parse_settings(ApplicationSettings, rest, "args")
    models = parse_settings(ModelSettings, given, "args") if given else None
    settings = _with_memory(settings, models)

    def same(deployment: Deployment, _: Mapping[str, Any]) -> Deployment:
        return deployment

    return _front(settings, models, same, _stages(settings, models, same), {})


def stages_of(settings: ServeSettings) -> dict[str, Application]:
    """The stages that a file of `rayner serve` parts from what answers, by their names."""
    return _stages(settings.application(), settings.answering(), _versioned)


def application_of(
    settings: ServeSettings, stages: Mapping[str, Application], leaving: Mapping[str, Application]
) -> Application:
    """The application of a file of `rayner serve`: only other `args` replace running replicas, or, where they
    hold a stage, other models.

    Args:
        stages: as `stages_of`.
        leaving: other stages that stay beside, since replicas of before still ask them.
    """
    return _front(settings.application(), settings.answering(), _versioned, stages, leaving)


def _versioned(deployment: Deployment, args: Mapping[str, Any]) -> Deployment:
    # From `serve run`, Ray takes every deployment for new code, and would restart replicas for new models.
    version = hashlib.sha256(json.dumps(args, sort_keys=True).encode()).hexdigest()[:16]
    return deployment.options(version=version, _internal=True)


def _with_memory(settings: ApplicationSettings, models: ModelSettings | None) -> ApplicationSettings:
    if not ray.is_initialized():
        return settings
    if models is not None:
        return with_memory(settings, memory_of_replicas(settings, models))
    if settings.replicas.memory is None:
        # Ray Serve gives a builder no `user_config`: `build_serve_application` in its application_state.py.
        log.warning("the models of user_config are not known here: name replicas.memory for Ray to go by it")
    return settings


def _front(
    settings: ApplicationSettings,
    models: ModelSettings | None,
    versioned: _Versioned,
    stages: Mapping[str, Application],
    leaving: Mapping[str, Application],
) -> Application:
    args = settings.model_dump(mode="json")
    user_config = None if models is None else models.model_dump(mode="json")
    options = deployment_options(settings.replicas)
    if settings.stages:
        # Else the screen has a line of Ray's on how it asks other deployments.
        options["logging_config"] |= {"log_level": "WARNING"}
    front = serve.deployment(name=NAME, user_config=user_config, **options)(Replica)
    # Replicas are given the stages when they start: those of others have to go.
    front = versioned(front, {**args, "names": [*stages]})
    return front.bind(args, dict(stages), dict(leaving)) if stages or leaving else front.bind(args)


def _stages(
    settings: ApplicationSettings, models: ModelSettings | None, versioned: _Versioned
) -> dict[str, Application]:
    stages: dict[str, Application] = {}
    if not settings.stages:
        return stages
    if models is None:
        what = "needs `checkpoint` in `args`, where its stages are made"
        raise RecipeError("stages", what, "write it there in place of `user_config`")
    user_config, batching = models.model_dump(mode="json"), settings.batching.model_dump(mode="json")
    for place, name in enumerate(stage_names(composed_pipeline(models, settings.stages))):
        replicas = settings.of_stage(name)
        own = {"models": user_config, "place": place, "replicas": replicas.model_dump(mode="json")}
        own |= {"batching": batching, "found": settings.limits.found}
        own["type_tokens"] = settings.limits.type_tokens
        made = serve.deployment(name=name, **deployment_options(replicas))(StageReplica)
        stages[name] = versioned(made, own).bind(own)
    return stages


def deployment_options(replicas: ReplicaSettings) -> dict[str, Any]:
    """Serve's options of a deployment."""
    actor: dict[str, Any] = {"num_cpus": replicas.cpus, "num_gpus": replicas.gpus}
    if replicas.memory:
        actor["memory"] = int(replicas.memory * 2**30)
    if replicas.accelerator_type:
        actor["accelerator_type"] = replicas.accelerator_type
    options: dict[str, Any] = {
        "ray_actor_options": actor,
        "max_ongoing_requests": replicas.ongoing,
        "max_queued_requests": replicas.queued,
        "backpressure_config": {"status_code": 503, "retry_after_s": replicas.retry_after},
        "graceful_shutdown_timeout_s": replicas.drain,
        "graceful_shutdown_wait_loop_s": min(1.0, replicas.drain),
        "health_check_period_s": replicas.health_period,
        "health_check_timeout_s": replicas.health_timeout,
        "max_surge_percent": replicas.surge,
        "max_constructor_retry_count": 3,
        "logging_config": {"enable_access_log": False},
    }
    if replicas.min == replicas.max:
        return options | {"num_replicas": replicas.max}
    autoscaling = {
        "min_replicas": replicas.min,
        "max_replicas": replicas.max,
        "target_ongoing_requests": replicas.target,
        "upscale_delay_s": replicas.upscale_delay,
        "downscale_delay_s": replicas.downscale_delay,
        "metrics_interval_s": 2,
        "look_back_period_s": max(3.0, min(10.0, replicas.upscale_delay)),
    }
    return options | {"autoscaling_config": autoscaling}
