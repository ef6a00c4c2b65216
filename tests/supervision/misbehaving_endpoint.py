"""A server with the HTTP interface of OpenAI that answers as the prompt says."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def reply_of(content: object) -> bytes:
    """A reply whose message has this content."""
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()


@dataclass
class Asked:
    """What the server saw."""

    prompts: Counter[str] = field(default_factory=Counter)
    keys: set[str | None] = field(default_factory=set)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Question:
    """A prompt, how often it has been asked now, and ways to answer."""

    prompt: str
    turn: int
    handler: BaseHTTPRequestHandler
    released: threading.Event

    def send(self, status: int, body: bytes, **headers: str) -> None:
        """Answer."""
        self.handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def say(self, content: object) -> None:
        """Answer with a message."""
        self.send(200, reply_of(content))

    def hang(self) -> None:
        """Answer nothing until the test ends."""
        self.released.wait(600)

    def trickle(self) -> None:
        """Answer byte by byte, without an end, until the test ends or nobody listens."""
        self.handler.send_response(200)
        self.handler.end_headers()
        with contextlib.suppress(OSError):
            while not self.released.wait(0.02):
                self.handler.wfile.write(b" ")
                self.handler.wfile.flush()

    def cut(self) -> None:
        """Promise more than comes, and reset the connection."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Length", "1000")
        self.handler.end_headers()
        self.handler.wfile.write(b'{"choices": [')
        self.handler.wfile.flush()
        linger = struct.pack("ii", 1, 0)
        self.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.handler.close_connection = True


@contextlib.contextmanager
def endpoint_that(answer: Callable[[Question], None]) -> Iterator[tuple[str, Asked]]:
    """Its address and what it is asked, while it runs."""
    asked, released = Asked(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            row = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = row["messages"][0]["content"]
            with asked.lock:
                asked.prompts[prompt] += 1
                asked.keys.add(self.headers["Authorization"])
                asked.at_once += 1
                asked.most_at_once = max(asked.most_at_once, asked.at_once)
                turn = asked.prompts[prompt]
            try:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    answer(Question(prompt, turn, self, released))
            finally:
                with asked.lock:
                    asked.at_once -= 1

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        released.set()
        server.shutdown()
        server.server_close()
        thread.join()
