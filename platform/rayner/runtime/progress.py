"""How far a long piece of work has come: a bar on a terminal, lines in a log."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Step = TypeVar("Step")

SECONDS_BETWEEN_LINES = 10
SILENT_SECONDS = 60
"""Of one long step, after which a line says that it goes on."""

log = logging.getLogger(__name__)


def track(steps: Iterable[Step], total: int, label: str) -> Iterator[Step]:
    """The steps, shown as they pass: a bar where standard error is a terminal, otherwise log lines."""
    return _bar(steps, total, label) if sys.stderr.isatty() else _lines(steps, total, label)


def _bar(steps: Iterable[Step], total: int, label: str) -> Iterator[Step]:
    from rich.console import Console
    from rich.progress import track as bar

    return iter(bar(steps, label, total, console=Console(stderr=True), transient=True))


def _lines(steps: Iterable[Step], total: int, label: str) -> Iterator[Step]:
    passed, over = [0], threading.Event()
    line = (passed, over, total, label)
    threading.Thread(target=_tell, args=line, name="progress", daemon=True).start()
    try:
        for number, step in enumerate(steps, 1):
            yield step
            passed[0] = number
    finally:
        over.set()


def _tell(passed: list[int], over: threading.Event, total: int, label: str) -> None:
    begun = last = time.monotonic()
    told = 0
    while not over.wait(SECONDS_BETWEEN_LINES):
        now, number = time.monotonic(), passed[0]
        if number == told and now - last < SILENT_SECONDS:
            continue
        log.info("%s: %d of %d, %d s", label, number, total, now - begun)
        told, last = number, now
