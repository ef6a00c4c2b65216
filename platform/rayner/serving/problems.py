"""Errors over HTTP: each names the field and says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from email.message import Message
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from rayner.errors import InputError


class TooLarge(InputError):
    """More than the limits allow."""


class NotReady(Exception):
    """The models are not loaded yet, or do not answer any more."""


def add_problem_handlers(app: FastAPI, retry_after: float) -> None:
    """Turn exceptions into replies."""

    @app.exception_handler(RequestValidationError)
    def _invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = [_problem(e) for e in error.errors()]
        if not _is_json(request.headers.get("Content-Type", "")):
            found = [{**problem, "hint": "send `Content-Type: application/json`"} for problem in found]
        return problems(422, found)

    @app.exception_handler(HTTPException)
    def _other(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 400 and error.__cause__ is not None:
            # FastAPI's own, where the body is neither JSON nor almost JSON.
            encoding = request.headers.get("Content-Encoding", "identity")
            return problems(422, [_unreadable(error.__cause__, encoding != "identity")])
        found = {"message": error.detail, "hint": _hint(error)}
        return problems(error.status_code, [found], error.headers)

    @app.exception_handler(TooLarge)
    def _too_large(_: Request, error: Exception) -> Response:
        assert isinstance(error, TooLarge)
        return problems(413, [{"field": error.where, "message": error.what, "hint": error.hint}])

    @app.exception_handler(InputError)
    def _unusable(_: Request, error: Exception) -> Response:
        assert isinstance(error, InputError)
        # Below HTTP, an option has its name on the command line, and a type its own: `types: PER`.
        option, colon, name = error.where.lstrip("-").partition(": ")
        message = f"{name}: {error.what}" if colon else error.what
        field = option.replace("-", "_")
        return problems(422, [{"field": field, "message": message, "hint": error.hint}])

    @app.exception_handler(NotReady)
    def _not_ready(_: Request, error: Exception) -> Response:
        headers = {"Retry-After": str(max(1, round(retry_after)))}
        return problems(503, [{"field": "", "message": str(error), "hint": "try again"}], headers)


def _is_json(content_type: str) -> bool:
    """Whether FastAPI reads a body of this type as JSON."""
    message = Message()
    message["Content-Type"] = content_type
    subtype = message.get_content_subtype()
    return message.get_content_maintype() == "application" and (
        subtype == "json" or subtype.endswith("+json")
    )


def problems(
    status: int, detail: list[dict[str, str]], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The reply to a request that cannot be answered."""
    filled = [{"field": "", "message": "", "hint": "", **problem} for problem in detail]
    return JSONResponse({"detail": filled}, status, dict(headers or {}))


_OBJECT = "send a JSON object as /docs shows it"
_GZIP = b"\x1f\x8b"
"""How what gzip compressed begins (RFC 1952)."""


def _problem(error: Mapping[str, Any]) -> dict[str, str]:
    """What pydantic or FastAPI found, in our shape."""
    location, message, hint = error["loc"], str(error["msg"]).removeprefix("Value error, "), ""
    field = ".".join(str(part) for part in location if part not in ("body", "query"))
    match error["type"]:
        case "json_invalid":
            message = f"not JSON ({error['ctx']['error']}, at character {location[-1]})"
            field, hint = "", _OBJECT
        case "string_unicode":
            message, hint = "half a surrogate pair in it, which is no character", "send whole characters"
        case "model_attributes_type" if field:
            # Pydantic's words speak of dictionaries. A name alone in `types` is the usual one.
            message, hint = "no JSON object", "write its fields as /docs shows them"
        case "extra_forbidden":
            message, hint = "no such field", "leave it out or correct its name; /docs shows the fields"
        case _ if not field:
            message, hint = "no JSON object", _OBJECT
    return {"field": field or "body", "message": message, "hint": hint}


def _hint(error: HTTPException) -> str:
    match error.status_code:
        case 404:
            return "/docs shows the paths"
        case 405 if error.headers:
            return f"send {error.headers['Allow']}"
        case _:
            return ""


def _unreadable(error: BaseException, is_encoded: bool) -> dict[str, str]:
    """Why no JSON could be made of a body, of which a header may say that it is encoded."""
    match error:
        case UnicodeDecodeError() if is_encoded or error.object.startswith(_GZIP):
            message, hint = "compressed", "send it as it is, without Content-Encoding"
        case UnicodeDecodeError():
            message, hint = (
                f"byte 0x{error.object[error.start]:02x} at {error.start} is not UTF-8",
                "send UTF-8",
            )
        case RecursionError():
            message, hint = "nested too deeply", _OBJECT
        case _:
            message, hint = f"not JSON that can be read ({str(error).partition(';')[0]})", _OBJECT
    return {"field": "body", "message": message, "hint": hint}
