"""An S3 server on the loopback, behind a proxy that fails as a test asks it to."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import unquote
from urllib.request import Request, urlopen
from wsgiref.types import WSGIApplication

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.test import run_wsgi_app

from rayner.errors import InputError, StorageError
from rayner.files.fetching import local

Fault = Literal["503", "403", "slow", "broken", "answer lost"]
SECONDS_OF_SLOW = 0.3
BUCKET = "tests"

_BODIES = {
    "503": b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
    "403": b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
}


class Storage:
    """The server; `fault` says of each request, by method and path, how it fails."""

    def __init__(self, app: WSGIApplication) -> None:
        self.fault: Callable[[str, str], Fault | None] = lambda method, path: None
        self.seen: list[tuple[str, str]] = []
        self.lock, self.dying = threading.Lock(), threading.Lock()
        storage = self

        class Proxy(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Else an answer's body waits 40 ms until the client has acknowledged its headers.
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: object) -> None:
                pass

            def _answer(self) -> None:
                with storage.lock:
                    storage.seen.append((self.command, self.path))
                    fault = storage.fault(self.command, self.path)
                body = self._body()
                if fault in ("503", "403"):
                    self._send(int(fault), [("Content-Type", "application/xml")], _BODIES[fault])
                    return
                if fault == "slow":
                    threading.Event().wait(SECONDS_OF_SLOW)
                reply = run_wsgi_app(app, self._environ(body))
                content = b"".join(reply[0])
                if fault == "answer lost":
                    self.close_connection = True
                    return
                self._send(int(reply[1][:3]), [*reply[2]], content, broken=fault == "broken")

            def _environ(self, body: bytes) -> dict[str, Any]:
                """The request as WSGI has it, with a body that has come whole."""
                path, _, query = self.path.partition("?")
                environ = {
                    "REQUEST_METHOD": self.command,
                    "SCRIPT_NAME": "",
                    "PATH_INFO": unquote(path).encode().decode("latin1"),
                    "QUERY_STRING": query,
                    "RAW_URI": self.path,
                    "SERVER_NAME": "127.0.0.1",
                    "SERVER_PORT": str(storage.port),
                    "SERVER_PROTOCOL": self.request_version,
                    "wsgi.url_scheme": "http",
                    "wsgi.input": io.BytesIO(body),
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(body)),
                }
                left_out = ("content-type", "content-length", "transfer-encoding")
                for name, value in self.headers.items():
                    if name.lower() not in left_out:
                        environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
                return environ

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                    parts = []
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        parts.append(self.rfile.read(size))
                        self.rfile.readline()
                    self.rfile.readline()
                    return b"".join(parts)
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))

            def _send(
                self, status: int, headers: list[tuple[str, str]], content: bytes, broken: bool = False
            ) -> None:
                self.send_response_only(status)
                kept = [(k, v) for k, v in headers if k.lower() not in ("connection", "transfer-encoding")]
                if self.command != "HEAD":
                    kept = [(k, v) for k, v in kept if k.lower() != "content-length"]
                    kept.append(("Content-Length", str(len(content))))
                for name, value in kept:
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "HEAD":
                    return
                if broken:
                    self.wfile.write(content[: len(content) // 2])
                    self.wfile.flush()
                    self.close_connection = True
                    return
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer

            def setup(self) -> None:
                super().setup()
                storage.connections.add(self.connection)

            def finish(self) -> None:
                storage.connections.discard(self.connection)
                with suppress(OSError):
                    super().finish()

        self.proxy, self.connections = Proxy, set[socket.socket]()
        self.port = 0
        self.start()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Let the proxy listen, at the port that it had before."""
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), self.proxy)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def kill(self) -> None:
        """End the proxy: nothing listens any more, and no connection is left."""
        self.server.shutdown()
        self.server.server_close()
        for connection in [*self.connections]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def dies_at(self, is_time: Callable[[str, str], bool], seconds: float = 0.5) -> list[str]:
        """Kill the proxy at each such request, by method and path, and start it again later; the requests."""
        died: list[str] = []

        def one(method: str, path: str) -> Fault | None:
            if is_time(method, path):
                died.append(f"{method} {path}")
                threading.Thread(target=self._die, args=(seconds,), daemon=True).start()
                return "answer lost"
            return None

        self.fault = one
        return died

    def _die(self, seconds: float) -> None:
        with self.dying:
            self.kill()
            threading.Event().wait(seconds)
            self.start()

    def works(self) -> None:
        """No faults from now on, and nothing seen yet."""
        self.fault = lambda method, path: None
        with self.dying:
            pass
        self.seen.clear()

    def fails(self, fault: Fault, times: int = 1, method: str = "", part: str = "") -> list[str]:
        """Fail the next requests of a method whose path has a part; those that failed, as they do."""
        failed: list[str] = []

        def one(asked: str, path: str) -> Fault | None:
            if len(failed) < times and asked.startswith(method) and part in path:
                failed.append(f"{asked} {path}")
                return fault
            return None

        self.fault = one
        return failed

    def objects(self, prefix: str = "") -> list[str]:
        """The keys in the bucket."""
        import obstore

        folder = prefix.rpartition("/")[0] or None
        found = [one["path"] for part in obstore.list(self.store(), folder) for one in part]
        return sorted(key for key in found if key.startswith(prefix))

    def store(self):
        """The bucket, as obstore sees it."""
        from obstore.store import from_url

        return from_url(f"s3://{BUCKET}", client_options={"allow_http": True})


def environment(url: str) -> dict[str, str]:
    """What a process needs to reach the server."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI-EXAMPLE",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def steps_at(place: str) -> int:
    """How many steps of the run at a URI are put in place."""
    try:
        return json.loads(local(f"{place}/last/state/state.json").read_text())["step"]
    except (InputError, StorageError):
        return 0


@contextmanager
def serving() -> Iterator[Storage]:
    """A server with one bucket."""
    # Called by the proxy: a second server, which looks for the service at each request, takes as long again.
    storage = Storage(create_backend_app("s3"))
    try:
        urlopen(Request(f"{storage.url}/{BUCKET}", method="PUT")).close()
        yield storage
    finally:
        storage.server.shutdown()
        storage.server.server_close()
