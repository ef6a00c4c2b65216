"""The one request of the quick start, and the command that is printed for it."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rayner.serving.quickstart import ask


@pytest.fixture
def asked() -> Iterator[tuple[str, list[tuple[str | None, str]]]]:
    """The address of a server, and the key and the body of each request that it gets."""
    requests: list[tuple[str | None, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            requests.append((self.headers.get("Authorization"), body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()
        thread.join()


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
@pytest.mark.parametrize("keys", [None, "s3cret,other"])
def test_the_printed_command_is_the_request(
    asked: tuple[str, list[tuple[str | None, str]]], monkeypatch: pytest.MonkeyPatch, keys: str | None
) -> None:
    address, requests = asked
    monkeypatch.delenv("RAYNER_API_KEYS", raising=False)
    if keys:
        monkeypatch.setenv("RAYNER_API_KEYS", keys)
    body = {"documents": [{"text": "It's Ada's $HOME."}]}
    command = ask(address, body)["request"]
    subprocess.run(["sh", "-c", command], check=True, timeout=300)
    assert requests == [("Bearer s3cret" if keys else None, json.dumps(body))] * 2
    assert "s3cret" not in command
