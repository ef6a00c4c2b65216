"""The quick start as people see it: the whole of it, then its pipeline over HTTP."""

from __future__ import annotations

import json
import shlex
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rayner.errors import RaynerError
from rayner.runtime.quickstart.quickstart import SENTENCES
from rayner.runtime.quickstart.quickstart import quickstart as prepare
from rayner.serving.application_settings import HttpSettings, ReplicaSettings, ServeSettings
from rayner.serving.gate import KEYS_VARIABLE, api_keys
from rayner.serving.launch import Served, signals

_HOST = "127.0.0.1"
_TIMEOUT = 60.0
"""Seconds that the one request may take."""


@contextmanager
def quickstart(out: Path, overrides: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """The quick start's pipeline, trained and answering on a free port of this machine until the block ends.

    Args:
        out, overrides: as of `rayner.runtime.quickstart.quickstart.quickstart`.

    Yields:
        What that returns, and `served`: `address` (of the page), `request` (a curl command), `answer` (the
        JSON that it gets).

    Raises:
        InputError: as that.
        RaynerError: the application did not start or did not answer.
    """
    result = prepare(out, overrides)
    start = time.perf_counter()
    with _answering(Path(result["pipeline"])) as address:
        result["served"] = ask(address, {"documents": [{"text": SENTENCES[0]}]})
        result["seconds"] = round(result["seconds"] + time.perf_counter() - start, 1)
        yield result


def ask(address: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """One POST to `/v1/annotate`.

    Raises:
        RaynerError: no answer, or one that is an error.
    """
    url, data = f"{address}/v1/annotate", json.dumps(body)
    headers = {"Content-Type": "application/json"}
    request = ["curl", "-s", url, *(f"-H{name}: {value}" for name, value in headers.items()), "-d", data]
    command = shlex.join(request)
    if keys := api_keys():
        headers["Authorization"] = f"Bearer {keys[0]}"
        # For the shell to fill in: a key is printed nowhere.
        command += f' -H "Authorization: Bearer ${{{KEYS_VARIABLE}%%,*}}"'
    # A proxy of the environment does not know this machine's ports.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data.encode(), headers), timeout=_TIMEOUT) as reply:
            answer = json.load(reply)
    except OSError as error:
        raise RaynerError(f"{url} does not answer: {error}") from None
    return {"address": address, "request": command, "answer": answer}


def wait_until_stopped() -> None:
    """Return after Ctrl-C or SIGTERM."""
    with signals() as (stop, _):
        stop.wait()


@contextmanager
def _answering(pipeline: Path) -> Iterator[str]:
    http = HttpSettings(host=_HOST, port=_free_port())
    replicas = ReplicaSettings(threads=1)
    served = Served()
    try:
        settings = ServeSettings(checkpoint=str(pipeline.absolute()), http=http, replicas=replicas)
        served.deploy(settings.model_copy(update={"require_key": bool(api_keys())}))
        yield f"http://{http.host}:{http.port}"
    finally:
        served.stop()


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as free:
        return free.getsockname()[1]
