"""Answers that were paid for, on disk: one JSON object a line, `key` and `answer`, appended as they come."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from rayner.errors import InputError
from rayner.files.locks import taken


class Ledger:
    """The answers of a file, by key; None is an answer without text. One process writes it at a time.

    `hosts` has who answered, by key; older files do not say it. A last line that a kill cut short is removed
    when the file is next written.

    Args:
        write: whether answers will be added; without it a file that is not there is an empty one.
        host: who gives the answers that will be added.

    Raises:
        InputError: a line that cannot be read, or a file that another process writes.
        StorageError: the file system gives no locks.
    """

    def __init__(self, path: Path, *, write: bool, host: str = "") -> None:
        self.path = path
        self.answers: dict[str, str | None] = {}
        self.hosts: dict[str, str] = {}
        self._host = host
        self._lock = threading.Lock()
        self._file: int | None = None
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if self._file is not None and not taken(self._file, path):
                raise InputError(str(path), "is written by another process", "wait until it ends")
            whole = self._read()
            if self._file is not None:
                os.ftruncate(self._file, whole)
        except BaseException:
            self.close()
            raise

    def add(self, key: str, answer: str | None) -> None:
        """Note an answer; it is on disk when this returns."""
        row = {"key": key, "answer": answer} | ({"host": self._host} if self._host else {})
        line = json.dumps(row) + "\n"
        with self._lock:
            assert self._file is not None
            whole = os.fstat(self._file).st_size
            data = memoryview(line.encode())
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except BaseException:
                # Answers that are on their way are written yet, and not behind a part of this one.
                os.ftruncate(self._file, whole)
                raise
            os.fsync(self._file)
            self.answers[key] = answer
            self.hosts[key] = self._host

    def close(self) -> None:
        """Let others write it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self) -> int:
        """Take the answers of the whole lines, and say how many bytes these are."""
        if not self.path.exists():
            return 0
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:end].split(b"\n")[:-1], 1):
            try:
                row = json.loads(line)
                key, answer = row["key"], row["answer"]
            except (ValueError, TypeError, KeyError, RecursionError):
                key = answer = 0
            if not isinstance(key, str) or not isinstance(answer, str | None):
                what = "not an answer of the ledger"
                raise InputError(f"{self.path}:{number}", what, "remove the line, or name another ledger")
            self.answers[key] = answer
            if isinstance(host := row.get("host"), str):
                self.hosts[key] = host
        return end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
