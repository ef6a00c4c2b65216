"""The name, the paths and the port of a service, looked at before Ray starts."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rayner.errors import InputError
from rayner.files.fetching import local_root
from rayner.files.locks import taken
from rayner.serving.application_settings import HttpSettings

_PREFIX = re.compile(r"/|(/(?!\.{1,2}(/|$))[^\s\x00-\x1f\x7f/?#%\\]+)+")
"""As a server sees it, with `%` decoded; `.` and `..` never get there."""


def checked_name(name: str) -> str:
    """The application's name, if it is one.

    Raises:
        InputError: it is empty.
    """
    if not name:
        raise InputError("--name", "is empty", "name the application, or leave the option out")
    return name


def checked_prefix(route_prefix: str) -> str:
    """The prefix, if it is one.

    Raises:
        InputError: it is none.
    """
    from ray.serve._private.utils import validate_route_prefix

    try:
        validate_route_prefix(route_prefix)
        if not _PREFIX.fullmatch(route_prefix):
            raise ValueError(f"{route_prefix!r} holds what is no name in a path")
        if f"{route_prefix}/".startswith("/-/"):
            raise ValueError("paths below /-/ are those of Ray Serve")
    except ValueError as error:
        raise InputError("--route-prefix", str(error), "write / or /NAME") from None
    return route_prefix


@contextmanager
def own_port(http: HttpSettings) -> Iterator[None]:
    """Find out before Ray starts whether the proxy can listen, and keep other services from the port, which
    Ray's proxies would share; on a cluster that is for its nodes to know.

    Raises:
        InputError: it cannot, or another service has the port, or the file that is locked cannot be opened.
        StorageError: the file system of that file gives no locks.
    """
    if os.environ.get("RAY_ADDRESS"):
        yield
        return
    _check_listening(http)
    # Each user's own: proxies of several users cannot share a port. Machines may share a home directory.
    name = f"rayner-serve-{os.getuid()}-{socket.gethostname()}-{http.host.replace(':', '.')}-{http.port}.lock"
    lock = _own_folder() / name
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        what = f"cannot be opened to lock it ({error.strerror or error})"
        hint = "remove it, or set RAYNER_LOCAL to a folder of yours that can be written to"
        raise InputError(str(lock), what, hint) from None
    try:
        if not taken(file, lock):
            what = f"another rayner serve is about to listen at {http.host}:{http.port}"
            raise InputError("http", what, "name another host or port, or stop that one")
        yield
    finally:
        os.close(file)


def _own_folder() -> Path:
    """Where nobody else can put a file, or a link, of a name that is known before."""
    named = os.environ.get("XDG_RUNTIME_DIR")
    return Path(named) if named and os.access(named, os.W_OK) else local_root()


def _check_listening(http: HttpSettings) -> None:
    try:
        (family, *_, address), *_ = socket.getaddrinfo(http.host, http.port, type=socket.SOCK_STREAM)
        with socket.socket(family) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        what = f"nothing can listen at {http.host}:{http.port} ({error.strerror or error})"
        raise InputError("http", what, "name another host or port, or stop what listens there") from None
