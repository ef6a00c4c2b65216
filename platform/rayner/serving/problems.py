"""Errors over HTTP: each names the field and says what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from rayner.errors import InputError

log = logging.getLogger(__name__)


class TooLarge(InputError):
    """More than the limits allow."""


class NotReady(Exception):
    """The models are not loaded yet, or do not answer any more."""


def add_problem_handlers(app: FastAPI, retry_after: float) -> None:
    """Turn exceptions into replies."""

    @app.exception_handler(RequestValidationError)
    def _invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = [(_field(e["loc"]), str(e["msg"]).removeprefix("Value error, ")) for e in error.errors()]
        is_json = "json" in request.headers.get("Content-Type", "")
        cure = "" if is_json else "send `Content-Type: application/json`"
        return problems(422, [{"field": field, "message": message, "cure": cure} for field, message in found])

    @app.exception_handler(HTTPException)
    def _other(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problems(error.status_code, [{"message": error.detail}], error.headers)

    @app.exception_handler(TooLarge)
    def _too_large(_: Request, error: Exception) -> Response:
        assert isinstance(error, TooLarge)
        return problems(413, [{"field": error.where, "message": error.what, "cure": error.cure}])

    @app.exception_handler(InputError)
    def _unusable(_: Request, error: Exception) -> Response:
        assert isinstance(error, InputError)
        # Below HTTP, an option has its name on the command line, and a type its own: `types: PER`.
        option, colon, name = error.where.lstrip("-").partition(": ")
        message = f"{name}: {error.what}" if colon else error.what
        field = option.replace("-", "_")
        return problems(422, [{"field": field, "message": message, "cure": error.cure}])

    @app.exception_handler(NotReady)
    def _not_ready(_: Request, error: Exception) -> Response:
        headers = {"Retry-After": str(max(1, round(retry_after)))}
        return problems(503, [{"field": "", "message": str(error), "cure": "try again"}], headers)


def problems(
    status: int, detail: list[dict[str, str]], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The reply to a request that cannot be answered."""
    filled = [{"field": "", "message": "", "cure": "", **problem} for problem in detail]
    return JSONResponse({"detail": filled}, status, dict(headers or {}))


def _field(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location if part not in ("body", "query"))
