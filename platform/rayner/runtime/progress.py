"""How far a long piece of work has come: a bar on a terminal, lines in a log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Step = TypeVar("Step")

SECONDS_BETWEEN_LINES = 10

log = logging.getLogger(__name__)


def track(steps: Iterable[Step], total: int, label: str) -> Iterator[Step]:
    """The steps, shown as they pass: a bar where standard error is a terminal, otherwise log lines."""
    return _bar(steps, total, label) if sys.stderr.isatty() else _lines(steps, total, label)


def _bar(steps: Iterable[Step], total: int, label: str) -> Iterator[Step]:
    from rich.console import Console
    from rich.progress import track as bar

    return iter(bar(steps, label, total, console=Console(stderr=True), transient=True))


def _lines(steps: Iterable[Step], total: int, label: str) -> Iterator[Step]:
    last = time.monotonic()
    for done, step in enumerate(steps, 1):
        yield step
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            log.info("%s: %d of %d", label, done, total)
