"""The HTTP application without Ray: a client of it, and at an address."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.http import create_app
from rayner.serving.remote_stages import Ask
from rayner.serving.service import Service


def client_of(
    models: ModelSettings,
    limits: Mapping[str, int] | None = None,
    keys: Sequence[str] = (),
    stages: Mapping[str, Ask] | None = None,
    batching: Mapping[str, int] | None = None,
) -> TestClient:
    """A client of a service that has loaded the models; an error within is a reply."""
    settings = ApplicationSettings.model_validate({"limits": limits or {}, "batching": batching or {}})
    service = Service(settings, device="cpu", stages=stages)
    asyncio.run(service.load(models))
    return TestClient(create_app(service, keys), raise_server_exceptions=False)


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Serve it in a thread of its own; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # asyncio sets it only on sockets that name their protocol; without it each answer waits for 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        # Connections that come before it is ready wait in the socket's queue.
        thread = threading.Thread(target=asyncio.run, args=(server.serve([listening]),))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
