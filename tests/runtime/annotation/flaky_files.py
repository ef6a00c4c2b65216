"""A file system whose reads fail: `flaky:///path` is the local file of that path."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.local import LocalFileSystem


class _FlakyFile(io.FileIO):
    def read(self, size: int | None = -1, /) -> bytes:
        """Read, or fail where a failure is due."""
        end = os.fstat(self.fileno()).st_size if size is None or size < 0 else self.tell() + size
        if FlakyFileSystem.failures and end > FlakyFileSystem.beyond:
            raise FlakyFileSystem.failures.pop(0)
        return super().read(-1 if size is None else size)


class FlakyFileSystem(LocalFileSystem):
    """Each read of bytes beyond a place takes one of the failures, for as long as there are any."""

    protocol = "flaky"
    failures: ClassVar[list[BaseException]] = []
    beyond = 0

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.FileIO:
        return _FlakyFile(path, mode)


fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)


@contextmanager
def failing(beyond: int, *failures: BaseException) -> Iterator[list[BaseException]]:
    """Let these reads fail; the list of those that are left."""
    FlakyFileSystem.failures, FlakyFileSystem.beyond = list(failures), beyond
    try:
        yield FlakyFileSystem.failures
    finally:
        FlakyFileSystem.failures = []
