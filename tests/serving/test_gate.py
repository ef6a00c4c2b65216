"""What is looked at before a body is read, and what becomes of a body that is refused."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from rayner.serving.gate import SizeGate
from rayner.serving.problems import add_problem_handlers

LIMIT = 1000
PIECE = 100


@pytest.mark.parametrize(
    ("announced", "pieces", "left"), [(True, 30, 0), (False, 30, 0), (True, 100, 60), (False, 100, 49)]
)
def test_before_413_the_rest_of_a_body_is_read_up_to_a_limit(announced: bool, pieces: int, left: int) -> None:
    """A client that sends all before it reads would see a connection that is reset."""

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        while True:
            await receive()

    bodies = [{"body": b" " * PIECE, "more_body": number < pieces - 1} for number in range(pieces)]
    replies: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", **bodies.pop(0)}

    async def send(message: Any) -> None:
        replies.append(message)

    headers = [(b"content-length", str(PIECE * pieces).encode())] if announced else []
    scope = {"type": "http", "path": "/v1/recognize", "headers": headers}
    asyncio.run(SizeGate(app, LIMIT)(scope, receive, send))
    assert replies[0]["status"] == 413
    assert len(bodies) == left


def test_a_body_that_ends_over_the_limit_is_not_waited_for() -> None:
    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        await receive()

    async def receive() -> Any:
        assert not replies
        received.append(1)
        return {"type": "http.request", "body": b" " * (LIMIT + 1), "more_body": False}

    async def send(message: Any) -> None:
        replies.append(message)

    replies: list[Any] = []
    received: list[int] = []
    asyncio.run(SizeGate(app, LIMIT)({"type": "http", "headers": []}, receive, send))
    assert (replies[0]["status"], len(received)) == (413, 1)


@pytest.mark.parametrize("path", ["/healthz", "/", "/docs", "/v1"])
def test_where_no_route_takes_a_body_nothing_of_it_is_waited_for(path: str) -> None:
    """These paths need no key, and the rest of such a body may never come."""
    replies: list[Any] = []

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError("it was let pass")

    async def receive() -> Any:
        raise AssertionError("the body is read")

    async def send(message: Any) -> None:
        replies.append(message)

    headers = [(b"content-length", str(LIMIT + 1).encode())]
    asyncio.run(SizeGate(app, LIMIT)({"type": "http", "path": path, "headers": headers}, receive, send))
    assert (replies[0]["status"], dict(replies[0]["headers"])[b"connection"]) == (413, b"close")


@pytest.mark.parametrize(
    ("encoding", "message"), [("deflate", "compressed"), ("identity", "byte 0x9c at 1 is not UTF-8")]
)
def test_a_body_that_is_said_to_be_compressed_is_told_so(encoding: str, message: str) -> None:
    app = FastAPI()
    add_problem_handlers(app, 1)

    @app.post("/")
    def answer(body: dict[str, Any]) -> None:
        assert body

    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    reply = TestClient(app).post("/", content=zlib.compress(b'{"documents": []}'), headers=headers)
    assert reply.status_code == 422
    assert [problem["message"] for problem in reply.json()["detail"]] == [message]
