"""A replica: the service within Ray Serve."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from ray import serve

from rayner.serving.application_settings import ApplicationSettings, ModelSettings, parse_settings
from rayner.serving.gate import api_keys
from rayner.serving.http import create_app
from rayner.serving.metrics import RayMeter
from rayner.serving.service import Service


@serve.ingress()
class Replica:
    """Loads models by `user_config` and answers over HTTP."""

    def __init__(self, settings: dict[str, Any]) -> None:
        import torch

        parsed = parse_settings(ApplicationSettings, settings, "args")
        if parsed.replicas.threads is not None:
            torch.set_num_threads(parsed.replicas.threads)
        self._keys = api_keys(parsed.require_key)
        self._service = Service(parsed, RayMeter(), "cuda" if parsed.replicas.gpus else "cpu")

    def __serve_build_asgi_app__(self) -> FastAPI:
        """What answers over HTTP, made where it runs."""
        return create_app(self._service, self._keys)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the models; requests go on meanwhile."""
        await self._service.load(parse_settings(ModelSettings, user_config, "user_config"))

    def check_health(self) -> None:
        """Raise where the model no longer answers: Serve then puts another replica in this one's place."""
        self._service.check()
