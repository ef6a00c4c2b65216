"""Locks between processes; each goes with the process that holds it, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def locked(path: Path, wait: bool) -> Generator[None]:
    """Hold the lock of a file, which is made if it is missing and stays.

    Args:
        wait: whether to wait for another process that holds it.

    Raises:
        BlockingIOError: another process holds it, and `wait` is false.
    """
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
