"""Locks between processes; each goes with the process that holds it, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import time
from collections.abc import Generator
from pathlib import Path
from typing import IO

from rayner.errors import InputError, RaynerError, StorageError
from rayner.files.whole import told_of

LOCK = ".lock"
"""The file that is locked, in a folder in which one process at a time writes."""
PAUSE = 0.5

log = logging.getLogger(__name__)


@contextlib.contextmanager
def locked(path: Path, doing: str, seconds: float = 0) -> Generator[None]:
    """Hold the lock of a file, which is made if it is missing, stays, and names the process that holds it.

    Its folder is made too.

    Args:
        doing: what a process that holds it does: `trains in this folder`.
        seconds: how long to wait for it.

    Raises:
        InputError: another process holds it, and there is no waiting; or the folder cannot be written to.
        RaynerError: another process has held it all the time.
        StorageError: the file system gives no locks.
    """
    with told_of(path.parent, "name a folder that can be"):
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a+", encoding="utf-8")
    with opened as file:
        _take(file, path, doing, seconds)
        with told_of(path.parent, "name a folder that can be"):
            os.ftruncate(file.fileno(), 0)
            # At once: what the file kept to write later would fail again when it is closed.
            os.write(file.fileno(), this_process().encode())
        yield


def this_process() -> str:
    """How messages to other processes and machines name this one."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _take(file: IO[str], path: Path, doing: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    told = False
    while not taken(file, path):
        file.seek(0)
        holder = f"another process ({file.read(200).strip() or 'unknown'})"
        if not seconds:
            what = f"{holder} {doing}"
            raise InputError(str(path.parent), what, "wait for it, stop it, or work in another folder")
        if time.monotonic() > deadline:
            hint = "stop it, then run the same command again"
            raise RaynerError(f"{path}: {holder} {doing}, and has for {seconds:.0f} seconds; {hint}")
        if not told:
            log.info("waiting for %s, which %s, up to %.0f seconds (%s)", holder, doing, seconds, path)
            told = True
        time.sleep(PAUSE)


def taken(file: IO[str] | int, path: Path) -> bool:
    """Lock an open file until it is closed; whether nobody else has it locked.

    Raises:
        StorageError: the file system gives no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        hint = (
            "name a folder on storage that has locks (for NFS: a mount without nolock, its lock service up)"
        )
        raise StorageError(str(path), f"cannot be locked ({error.strerror or error})", hint) from None
    return True
