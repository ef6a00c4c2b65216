"""What is looked at before a request's body is read: the API key and the size."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rayner.errors import InputError
from rayner.serving.problems import problems

KEYS_VARIABLE = "RAYNER_API_KEYS"
GUARDED = "/v1/"
_TIMES, _SECONDS = 4, 5.0
"""How much more than the limit of a body, and for how long, is read before it is refused."""


def api_keys(required: bool = False) -> tuple[str, ...]:
    """The keys in RAYNER_API_KEYS, parted by commas; none where it is not set.

    Raises:
        InputError: the variable holds no key, is not UTF-8, or is not set where a key is required.
    """
    text = os.environ.get(KEYS_VARIABLE)
    keys = tuple(key.strip() for key in (text or "").split(",") if key.strip())
    try:
        "".join(keys).encode()
    except UnicodeEncodeError:
        raise InputError(KEYS_VARIABLE, "is not UTF-8", "write keys in UTF-8, or in ASCII alone") from None
    if text is not None and not keys:
        raise InputError(KEYS_VARIABLE, "holds no key", "write keys parted by commas, or unset it")
    if required and not keys:
        what = "is not set in this process, and require_key is"
        raise InputError(KEYS_VARIABLE, what, "set it where the nodes start, or in the runtime environment")
    return keys


class KeyGate:
    """Lets only those requests to `/v1/` pass that bring a key: `Authorization: Bearer KEY`."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        # Digests are of one length, so that the time of a comparison says nothing of a key's.
        self._digests = [_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 401."""
        if scope["type"] == "http" and self._digests and _path(scope).startswith(GUARDED):
            given = _digest(_bearer(scope))
            # A sum looks at every key, whichever matches.
            if not sum(hmac.compare_digest(given, digest) for digest in self._digests):
                what = {"field": "Authorization", "message": "no valid API key", "hint": "send `Bearer KEY`"}
                reply = problems(401, [what], {"WWW-Authenticate": "Bearer"})
                await reply(scope, receive, send)
                return
        await self._app(scope, receive, send)


class SizeGate:
    """Stops reading a body at the limit, whatever its length was said to be."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._limit:
            # Elsewhere no route takes a body, and who has no key must not keep the replica waiting.
            if _path(scope).startswith(GUARDED):
                await _read_on(receive, _TIMES * self._limit)
            await self._refuse(scope, receive, send)
            return
        read = 0
        started = False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limit:
                if message.get("more_body", False):
                    await _read_on(receive, _TIMES * self._limit)
                raise _OverLimit
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, counted, noted)
        except _OverLimit:
            if not started:
                await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = f"the body is over {self._limit:,} bytes"
        what = {"field": "body", "message": message, "hint": "send fewer documents at a time"}
        await problems(413, [what], {"Connection": "close"})(scope, receive, send)


async def _read_on(receive: Receive, most: int) -> None:
    """Take in the rest of a body and forget it, up to a limit and for a while.

    The system resets a connection that is closed while there is something left to read: a client that sends
    all before it reads would never see the reply.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS):
            while most > 0:
                message = await receive()
                most -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


class _OverLimit(BaseException):
    """No Exception: the application must not turn it into a reply of its own."""


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _bearer(scope: Scope) -> bytes:
    scheme, _, key = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""


def _path(scope: Scope) -> str:
    """The path within the application: Serve hands over the whole path and the prefix beside it."""
    path, root = scope["path"], scope.get("root_path", "")
    return path[len(root) :] if path.startswith(f"{root}/") else path
