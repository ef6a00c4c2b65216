"""The Serve application: what `serve run`, `serve deploy` and KubeRay build, and `rayner serve` too."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ray import serve
from ray.serve import Application, Deployment

from rayner.serving.application_settings import (
    ApplicationSettings,
    ModelSettings,
    ReplicaSettings,
    ServeSettings,
    parse_settings,
)
from rayner.serving.deployment import Replica

NAME = "rayner"


def build(args: dict[str, Any]) -> Application:
    """The application of `args`, whose keys are those of the YAML file of `rayner serve` without `http`.

    What answers, `checkpoint`, `models` and `knowledge_bases`, may stand here or in the deployment's
    `user_config`. There, a change of them swaps them within the running replicas; here, it replaces the
    replicas.

    Raises:
        RecipeError: the key that is wrong and the nearest known one.
    """
    models = {key: value for key, value in args.items() if key in ModelSettings.model_fields}
    rest = {key: value for key, value in args.items() if key not in models}
    settings = parse_settings(ApplicationSettings, rest, "args")
    user_config = parse_settings(ModelSettings, models, "args") if models else None
    return _deployment(settings, user_config).bind(settings.model_dump(mode="json"))


def application_of(settings: ServeSettings) -> Application:
    """The application of a file of `rayner serve`: only another state of `args` replaces running replicas."""
    args = settings.application().model_dump(mode="json")
    version = hashlib.sha256(json.dumps(args, sort_keys=True).encode()).hexdigest()[:16]
    deployment = _deployment(settings.application(), settings.answering())
    # From `serve run`, Ray takes every deployment for new code, and would restart replicas for new models.
    return deployment.options(version=version, _internal=True).bind(args)


def _deployment(settings: ApplicationSettings, models: ModelSettings | None) -> Deployment:
    user_config = None if models is None else models.model_dump(mode="json")
    options = deployment_options(settings.replicas)
    return serve.deployment(name=NAME, user_config=user_config, **options)(Replica)


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
