"""Replicas: the service within Ray Serve, whole or one stage of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle

from rayner.errors import RaynerError, RecipeError
from rayner.serving.application_settings import (
    ApplicationSettings,
    BatchingSettings,
    ModelSettings,
    ReplicaSettings,
    parse_settings,
)
from rayner.serving.gate import api_keys
from rayner.serving.http import create_app
from rayner.serving.metrics import RayMeter
from rayner.serving.service import Service
from rayner.serving.stage_service import StageService


@serve.ingress()
class Replica:
    """Loads models by `user_config` and answers over HTTP.

    Args:
        stages: the deployments that hold the models in its place, by their stages.
        leaving: deployments that are kept for the replicas before this one, which does not ask them.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        stages: Mapping[str, DeploymentHandle] | None = None,
        leaving: Mapping[str, DeploymentHandle] | None = None,
    ) -> None:
        parsed = parse_settings(ApplicationSettings, settings, "args")
        _set_threads(parsed.replicas)
        self._keys = api_keys(parsed.require_key)
        asks = {name: partial(_ask, handle) for name, handle in (stages or {}).items()}
        self._names_models = False
        self._service = Service(parsed, RayMeter(), _device(parsed.replicas), asks)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """What answers over HTTP, made where it runs."""
        return create_app(self._service, self._keys)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the models; requests go on meanwhile."""
        self._names_models = True
        # Serve stops a replica that raises here: all of them, for a slip in a file that is deployed again.
        await self._service.load(user_config)

    async def failed_change(self) -> str | None:
        """Why the last change of models did not come in, if it did not."""
        return self._service.failed_change

    def check_health(self) -> None:
        """Raise where the model no longer answers: Serve then puts another replica in this one's place."""
        if not self._names_models:
            # Serve has called `reconfigure` by now, if there is a `user_config`.
            what = "neither `args` nor `user_config` of this deployment names what answers"
            raise RecipeError("checkpoint", what, "write `checkpoint: RUN/best` into one of them")
        self._service.check()


class StageReplica(StageService):
    """Holds one stage of a pipeline, and answers those replicas that answer over HTTP."""

    def __init__(self, settings: dict[str, Any]) -> None:
        replicas = parse_settings(ReplicaSettings, settings["replicas"], "replicas")
        models = parse_settings(ModelSettings, settings["models"], "args")
        batching = parse_settings(BatchingSettings, settings["batching"], "batching")
        _set_threads(replicas)
        self._stuck_after = replicas.stuck_after
        limits = settings["found"], settings["type_tokens"]
        super().__init__(models, settings["place"], batching, RayMeter(), _device(replicas), *limits)

    def check_health(self) -> None:
        """Raise where the model no longer answers."""
        self.check(self._stuck_after)


def failed_change_of(application: str) -> str | None:
    """Why a running application kept the models that it had, if it did; asks one of its replicas.

    Raises:
        RaynerError: they are too busy to say.
    """
    asked = serve.get_app_handle(application).failed_change.remote()
    try:
        return asked.result(timeout_s=10)
    except (TimeoutError, BackPressureError):
        what = "the replicas are too busy to say whether they have the new models"
        raise RaynerError(what, "ask GET /v1/models") from None


async def _ask(handle: DeploymentHandle, method: str, *arguments: Any) -> Any:
    return await getattr(handle, method).remote(*arguments)


def _set_threads(replicas: ReplicaSettings) -> None:
    import torch

    if replicas.threads is not None:
        torch.set_num_threads(replicas.threads)


def _device(replicas: ReplicaSettings) -> str:
    return "cuda" if replicas.gpus else "cpu"
