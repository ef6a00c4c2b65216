"""Waiting until something holds, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from subprocess import Popen
from typing import Any


def wait_for(condition: Callable[[], Any], seconds: float = 300, process: Popen[Any] | None = None) -> None:
    """Wait until something holds; fail if it does not in time, or if the process that works on it ends."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, "the process ended too early"
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
