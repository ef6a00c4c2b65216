"""The HTTP application: routes over a service, as FastAPI documents them under `/docs`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Response, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rayner.serving.gate import KeyGate, SizeGate
from rayner.serving.model_schemas import ModelsReply
from rayner.serving.playground import playground
from rayner.serving.problems import add_problem_handlers
from rayner.serving.schemas import (
    AnnotateReply,
    AnnotateRequest,
    Health,
    Problems,
    RecognizeReply,
    RecognizeRequest,
    Reply,
    StandardizeReply,
    StandardizeRequest,
)
from rayner.serving.service import Service
from rayner.serving.typing_schemas import TypeReply, TypeRequest

_NO_KEY: dict[int | str, dict[str, Any]] = {
    401: {"model": Problems, "description": "No valid API key, where RAYNER_API_KEYS has some."}
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    413: {"model": Problems, "description": "More than the service's limits allow."},
    422: {"model": Problems, "description": "A field that is missing, unknown or wrong, by its name."},
    503: {
        "description": "Too many requests wait, or no replica is ready; Retry-After says when to try again."
    },
}
_DESCRIPTION = (
    "Finds mentions of types in texts, names their fine types and links them to entities. Offsets count "
    "Unicode code points of the text that was sent, half-open. Every reply names the versions of the models "
    "that made it."
)


def create_app(service: Service, keys: Sequence[str] = ()) -> FastAPI:
    """The application.

    Args:
        service: what answers.
        keys: one of which a request to `/v1/` must bring; none lets everybody in.
    """
    app = FastAPI(
        title="rayner",
        version=version("rayner"),
        description=_DESCRIPTION,
        # It would load from other hosts, and /docs has the same.
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    add_problem_handlers(app, service.settings.replicas.retry_after)
    app.include_router(_answers(service, bool(keys)))
    app.include_router(_health(service))
    if service.settings.page:
        app.include_router(playground())
    # The last one added is the first to look: keys before sizes, and HEAD as GET before both.
    app.add_middleware(SizeGate, limit=service.settings.limits.body_bytes)
    app.add_middleware(KeyGate, keys=keys)
    app.add_middleware(_relative_redirects)
    app.add_middleware(_head_as_get)
    return app


def _head_as_get(app: ASGIApp) -> ASGIApp:
    """Answers HEAD as GET, without a body: probes ask so, and FastAPI's routes know GET alone."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await app(scope, receive, send)
            return

        async def bare(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await app({**scope, "method": "GET"}, receive, bare)

    return answer


def _relative_redirects(app: ASGIApp) -> ASGIApp:
    """Redirects to the path alone: before TLS that ends elsewhere, a whole address would lead out of it."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def relative(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 307:
                headers = MutableHeaders(raw=message["headers"])
                place = urlsplit(headers["location"])
                headers["location"] = place._replace(scheme="", netloc="").geturl()
                message = {**message, "headers": headers.raw}
            await send(message)

        await app(scope, receive, relative)

    return answer


def _sent(reply: Reply) -> Response:
    """The reply, written at once: FastAPI would first make dictionaries of it, and check them again."""
    return Response(reply.model_dump_json(), media_type="application/json")


def _answers(service: Service, needs_key: bool) -> APIRouter:
    router = APIRouter(
        prefix="/v1",
        responses={**_NO_KEY, **_RESPONSES} if needs_key else _RESPONSES,
        # For the documentation alone: KeyGate is what looks at keys.
        dependencies=[Security(HTTPBearer(auto_error=False))] if needs_key else None,
    )

    @router.post("/recognize", response_model=RecognizeReply)
    async def recognize(request: RecognizeRequest) -> Response:
        """Find the mentions of types in documents."""
        return _sent(await service.recognize(request))

    @router.post("/standardize", response_model=StandardizeReply)
    async def standardize(request: StandardizeRequest) -> Response:
        """Name the entities of mentions."""
        return _sent(await service.standardize(request))

    @router.post("/annotate", response_model=AnnotateReply)
    async def annotate(request: AnnotateRequest) -> Response:
        """Find the mentions of types in documents and link them to entities."""
        return _sent(await service.annotate(request))

    @router.post("/type", response_model=TypeReply)
    async def type_mentions(request: TypeRequest) -> Response:
        """Name the fine types of mentions that are known."""
        return _sent(await service.type_mentions(request))

    @router.get("/models")
    async def models() -> ModelsReply:
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
