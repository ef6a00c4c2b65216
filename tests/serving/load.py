"""Clients that ask again and again, and retry a request once, as docs/serve.md tells clients to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

import requests

from tests.waiting import wait_for

PAUSE = 0.05
"""Seconds between two requests of a client, which are several times as many as a request takes."""


@dataclass
class Seen:
    """What the clients saw: good replies in order, requests that failed twice, and how many were retried."""

    replies: list[dict[str, Any]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    retried: int = 0


@contextmanager
def under_load(url: str, body: Callable[[], dict[str, Any]], clients: int = 4) -> Iterator[Seen]:
    """Ask until the block is left."""
    seen, stop = Seen(), threading.Event()

    def ask() -> None:
        session = requests.Session()
        while not stop.is_set():
            outcome = attempt(session, url, body())
            if isinstance(outcome, str):
                seen.retried += 1
                wait_for(lambda: _is_ready(session, url))
                outcome = attempt(session, url, body())
            if isinstance(outcome, str):
                seen.failed.append(outcome)
            else:
                seen.replies.append(outcome)
            # Else the replicas that are to start have to share the cores with those that answer.
            stop.wait(PAUSE)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def attempt(session: requests.Session, url: str, body: dict[str, Any]) -> dict[str, Any] | str:
    """The reply, or what went wrong."""
    try:
        reply = session.post(url, json=body, timeout=60)
    except requests.RequestException as error:
        return repr(error)
    return reply.json() if reply.status_code == 200 else f"{reply.status_code}: {reply.text[:200]}"


def _is_ready(session: requests.Session, url: str) -> bool:
    try:
        return session.get(urljoin(url, "/readyz"), timeout=60).status_code == 200
    except requests.RequestException:
        return False
