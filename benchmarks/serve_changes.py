"""What clients that retry once see while the service changes: rows for `benchmarks.serve_load --changes`.

Two replicas answer 16 clients. A quarter of the time in, a new index comes in, the replicas are replaced by a
rolling update, or one of them is killed. Replicas that start meanwhile have no core of their own: these rows
tell of failures and of waiting, not of speed. `change_seconds` is how long the change took, None beyond two
minutes; where it was not `made_under_load`, give more `--seconds`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.serve_process import Server, served
from benchmarks.serve_requests import Row, load, replica, requests_of, rest, shown, write
from benchmarks.synthetic_index import write_synthetic_index
from rayner.retrieval.index_folder import remove_entities

CLIENTS, REPLICAS, NAMES = 16, 2, 1000
LEAST_SECONDS = 90.0
"""A rolling update loads each new replica and drains each old one."""
_PATIENCE = 120.0


class Change(NamedTuple):
    """What is done to the service, under which requests, and what tells that it came about."""

    what: str
    path: str
    bodies: Path
    make: Callable[[], object]
    is_made: Callable[[], bool]


def changes(options: argparse.Namespace, folder: Path) -> list[Row]:
    """A row for each change; that of the index where a standardizer is given."""
    settings = replica(options)
    settings["replicas"] |= {"min": REPLICAS, "max": REPLICAS}
    settings["checkpoint"] = str(Path(options.checkpoint).resolve())
    names: list[str] = []
    index = folder / "index"
    if options.standardizer:
        checkpoint = Path(options.standardizer).resolve()
        _, names = write_synthetic_index(checkpoint, index, NAMES)
        settings["knowledge_bases"] = {"names": {"index": str(index), "standardizer": str(checkpoint)}}
    texts = write(folder / "texts.json", requests_of(options.corpus, options.sentences[0]))
    with served(settings, folder, options.core, rest(options.core)) as server:
        longer = argparse.Namespace(**{**vars(options), "seconds": max(options.seconds, LEAST_SECONDS)})
        under_load = partial(_under_load, server, longer, folder)
        pid = min(server.replicas())
        kill = partial(os.kill, pid, signal.SIGKILL)
        is_made = partial(_are_replaced, server, {pid})
        rows = [under_load(Change("killed replica", "/v1/recognize", texts, kill, is_made))]
        if names:
            mentions = write(folder / "mentions.json", [{"mentions": [name]} for name in names[1:201]])
            version = _index_version(server)

            def swap() -> None:
                remove_entities(index, ["e0"])
                server.change(revision="without one")

            def is_swapped() -> bool:
                return _index_version(server) != version

            rows.append(under_load(Change("index swap", "/v1/standardize", mentions, swap, is_swapped)))
        update = partial(server.change, limits={"mentions": 999})
        is_made = partial(_are_replaced, server, server.replicas())
        rows.append(under_load(Change("rolling update", "/v1/recognize", texts, update, is_made)))
    return rows


def _under_load(server: Server, options: argparse.Namespace, folder: Path, change: Change) -> Row:
    wait = options.warm_up + options.seconds / 4
    took: list[float] = []

    def disturb() -> None:
        time.sleep(wait)
        began = time.monotonic()
        change.make()
        while not change.is_made():
            if time.monotonic() - began > _PATIENCE:
                return
            time.sleep(0.2)
        took.append(time.monotonic() - began)

    thread = threading.Thread(target=disturb)
    thread.start()
    row = load(server.address, change.path, change.bodies, CLIENTS, options, folder)
    thread.join()
    seconds = took[0] if took else None
    under_load = seconds is not None and wait + seconds < options.warm_up + options.seconds
    row = {"what": change.what, "clients": CLIENTS, **row}
    return shown({**row, "change_seconds": seconds, "made_under_load": under_load})


def _are_replaced(server: Server, old: set[int]) -> bool:
    now = server.replicas()
    return old.isdisjoint(now) and len(now) == REPLICAS


def _index_version(server: Server) -> str:
    with urllib.request.urlopen(f"{server.address}/v1/models", timeout=60) as reply:
        found: dict[str, Any] = json.load(reply)
    return found["knowledge_bases"]["names"]["index"]
