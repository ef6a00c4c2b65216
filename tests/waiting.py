"""Waiting until something holds, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from subprocess import Popen
from typing import Any

import psutil


def wait_for(
    condition: Callable[[], Any],
    seconds: float = 300,
    process: Popen[Any] | None = None,
    pause: float = 0.05,
) -> None:
    """Wait until something holds; fail if it does not in time, or if the process that works on it ends.

    Args:
        pause: seconds from one look to the next; more where a look costs much.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, "the process ended too early"
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(pause)


def below(pid: int) -> list[psutil.Process]:
    """The processes that one has started, and those that these have."""
    return psutil.Process(pid).children(recursive=True)


def command_of(process: psutil.Process) -> str:
    """Empty where the process is over."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; one that nobody has waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
