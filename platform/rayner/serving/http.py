"""The HTTP application: routes over a service, as FastAPI documents them under `/docs`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Security
from fastapi.responses import HTMLResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from rayner.serving.gate import KeyGate, SizeGate
from rayner.serving.problems import add_problem_handlers
from rayner.serving.schemas import (
    AnnotateReply,
    AnnotateRequest,
    Health,
    ModelsReply,
    Problems,
    RecognizeReply,
    RecognizeRequest,
    StandardizeReply,
    StandardizeRequest,
)
from rayner.serving.service import Service

_RESPONSES: dict[int | str, dict[str, Any]] = {
    401: {"model": Problems, "description": "No valid API key, where the service asks for one."},
    413: {"model": Problems, "description": "More than the service's limits allow."},
    422: {"model": Problems, "description": "A field that is missing, unknown or wrong, by its name."},
    503: {
        "description": "Too many requests wait, or no replica is ready; Retry-After says when to try again."
    },
}
_DESCRIPTION = (
    "Finds mentions of types in texts and links them to entities. Offsets count Unicode code points of the "
    "text that was sent, half-open. Every reply names the versions of the models that made it."
)
Key = Annotated[HTTPAuthorizationCredentials | None, Security(HTTPBearer(auto_error=False))]


def create_app(service: Service, keys: Sequence[str] = ()) -> FastAPI:
    """The application.

    Args:
        service: what answers.
        keys: one of which a request to `/v1/` must bring; none lets everybody in.
    """
    app = FastAPI(title="rayner", version=version("rayner"), description=_DESCRIPTION)
    add_problem_handlers(app, service.settings.replicas.retry_after)
    app.include_router(_answers(service))
    app.include_router(_health(service))
    if service.settings.page:
        app.include_router(_page())
    # The last one added is the first to look: keys before sizes.
    app.add_middleware(SizeGate, limit=service.settings.limits.body_bytes)
    app.add_middleware(KeyGate, keys=keys)
    return app


def _answers(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", responses=_RESPONSES)

    @router.post("/recognize")
    async def recognize(request: RecognizeRequest, _: Key) -> RecognizeReply:
        """Find the mentions of types in documents."""
        return await service.recognize(request)

    @router.post("/standardize")
    async def standardize(request: StandardizeRequest, _: Key) -> StandardizeReply:
        """Name the entities of mentions."""
        return await service.standardize(request)

    @router.post("/annotate")
    async def annotate(request: AnnotateRequest, _: Key) -> AnnotateReply:
        """Find the mentions of types in documents and link them to entities."""
        return await service.annotate(request)

    @router.get("/models")
    async def models(_: Key) -> ModelsReply:
        """What answers now: versions, types, knowledge bases."""
        return service.describe()

    return router


def _health(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> Health:
        """Whether the process lives."""
        return Health(status="ok")

    @router.get("/readyz", responses={503: {"model": Problems, "description": "Not ready."}})
    async def readyz() -> Health:
        """Whether the models are loaded and answer in time."""
        service.check()
        return Health(status="ok")

    return router


def _page() -> APIRouter:
    router = APIRouter()
    html = files("rayner.serving").joinpath("page/index.html").read_text("utf-8")

    @router.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(html, headers={"Content-Security-Policy": _POLICY})

    return router


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
