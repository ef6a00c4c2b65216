"""What is in a file, by its SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_files(paths: Iterable[Path]) -> str:
    """A SHA-256 of the content of files, in order, in hexadecimal."""
    return hashlib.sha256(b"".join(bytes.fromhex(sha256_of(path)) for path in paths)).hexdigest()


class FileHashes:
    """Hashes of files that are asked for again and again, computed anew where a file has changed."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[int, int, int], str]] = {}

    def of(self, path: Path) -> tuple[int, str]:
        """Its size in bytes, and the SHA-256 of its content in hexadecimal."""
        about = path.stat()
        stamp = (about.st_ino, about.st_size, about.st_mtime_ns)
        known = self._known.get(about.st_ino)
        if known is None or known[0] != stamp:
            known = stamp, sha256_of(path)
            self._known[about.st_ino] = known
        return about.st_size, known[1]
