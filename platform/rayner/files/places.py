"""Folders on any file system that pyarrow or fsspec reach."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from rayner.errors import InputError, first_line
from rayner.files.uris import check_name, check_uri, quoted
from rayner.files.whole import is_partial, partial_name

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_OF_A_BUCKET = re.compile(r"(s3://[^/?]+)((?:/[^/?]+)*)/?")
_WHOLE_ON_CLOSE = {"s3", "gcs", "abfs"}
"""File systems on which a file appears when its stream is closed, complete or not at all."""
_TELL_OF_CHANGES = ("etag", "ETag", "blob_id", "last_modified", "last_commit", "created")
"""What packages of fsspec say of a file, each something else."""

_NEW = 2 * 10**9
"""Nanoseconds after its time in which a file may be written again without another time."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path on a file system. `shown` is how the user would write it."""

    filesystem: fs.FileSystem
    path: str
    shown: str

    @property
    def is_local(self) -> bool:
        """Whether the path is one of this machine."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def is_fault(self, error: BaseException) -> bool:
        """Whether an error that came of using the storage is of the storage: packages of fsspec raise those
        of their clients, such as httpx's of a host that is not known, which are no OSErrors."""
        return isinstance(error, OSError) or self._handler is not None

    @property
    def _handler(self) -> fs.FSSpecHandler | None:
        handler = getattr(self.filesystem, "handler", None)
        return handler if isinstance(handler, fs.FSSpecHandler) else None

    def below(self, name: str) -> Place:
        """The place of a relative path."""
        return Place(self.filesystem, *(f"{base.rstrip('/')}/{name}" for base in (self.path, self.shown)))

    def at(self, path: str) -> Place:
        """Another path on the same file system."""
        if self.is_local:
            return Place(self.filesystem, path, path)
        scheme, mark, _ = self.shown.partition("://")
        return Place(self.filesystem, path, f"{scheme}://{path.lstrip('/')}" if mark else path)

    def info(self) -> fs.FileInfo:
        """What lies here."""
        found = self.filesystem.get_file_info([self.path])
        return found[0]

    def time_of(self, file: fs.FileInfo) -> str:
        """When a file here was written, or what else its store says by which it can be told that it changed;
        of one of which nothing is said, now."""
        if file.mtime_ns is not None:
            return str(file.mtime_ns)
        handler = self._handler
        about = handler.fs.info(file.path) if handler else {}
        known = {name: str(about[name]) for name in _TELL_OF_CHANGES if about.get(name) is not None}
        return str(known or time.time_ns())

    def tag_of_new(self, file: fs.FileInfo) -> str:
        """What tells the content of a file here that was written just now from what may come within the same
        second, where its store tells times in whole seconds, as S3 does; empty of any other one."""
        time_ns = file.mtime_ns
        if time_ns is None or time_ns % 10**9 or time_ns < time.time_ns() - _NEW:
            return ""
        with self.filesystem.open_input_stream(file.path, compression=None) as stream:
            tag: bytes | None = (stream.metadata() or {}).get("ETag")
        return "-" + (hashlib.sha256(tag).hexdigest() if tag else str(time.time_ns()))

    def times_of(self, found: Sequence[fs.FileInfo]) -> dict[str, str]:
        """By path, when each of these files was written, or what else its store says by which it can be told
        that it changed; without those of which nothing is said. They are this one, or lie below here."""
        times = {file.path: str(file.mtime_ns) for file in found if file.mtime_ns is not None}
        handler = self._handler
        if len(times) == len(found) or handler is None:
            return times
        # One listing: a request a file would take hours.
        is_one = [file.path for file in found] == [self.path]
        about = {self.path: handler.fs.info(self.path)} if is_one else handler.fs.find(self.path, detail=True)
        for path in about.keys() & {file.path for file in found}:
            # The first alone: what comes after it may be told at one time and not at another.
            told = (about[path].get(name) for name in _TELL_OF_CHANGES)
            if (first := next((value for value in told if value is not None), None)) is not None:
                times[path] = str(first)
        return times

    def files(self, recursive: bool = False) -> list[fs.FileInfo]:
        """The files in this folder, by path; none where there is no such folder."""
        selector = fs.FileSelector(self.path, recursive=recursive, allow_not_found=True)
        found = self.filesystem.get_file_info(selector)
        return sorted((f for f in found if f.type == fs.FileType.File), key=lambda f: f.path)

    def read(self) -> bytes | None:
        """The content of the file; None where there is none."""
        try:
            with self.filesystem.open_input_stream(self.path, compression=None) as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, data: bytes) -> None:
        """Write a file whole or not at all; in place of the one that is there."""
        with self.writing() as stream:
            stream.write(data)

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        """A stream to write to; the file takes its place when all went well."""
        folder, _, name = self.path.rpartition("/")
        if self.filesystem.type_name in _WHOLE_ON_CLOSE:
            # Arrow's streams cannot be given up: they put what they have in place, also when dropped.
            with tempfile.TemporaryFile() as whole:
                yield whole
                whole.flush()
                self._upload_apart(os.dup(whole.fileno()))
            return
        self.filesystem.create_dir(folder or "/", recursive=True)
        partial = f"{folder}/{partial_name(name)}"
        try:
            with self.filesystem.open_output_stream(partial, compression=None) as stream:
                yield stream
            self.filesystem.move(partial, self.path)
        except BaseException:
            with suppress(OSError):
                self.filesystem.delete_file(partial)
            raise

    def _upload_apart(self, descriptor: int) -> None:
        """In a thread, where no Ctrl-C comes between, and which owns the file that it reads."""
        with ThreadPoolExecutor(1) as apart:
            # The pool does not wait for a thread whose start was interrupted: it starts with nothing to do.
            apart.submit(int).result()
            apart.submit(self._upload, descriptor).result()

    def _upload(self, descriptor: int) -> None:
        with open(descriptor, "rb") as whole:
            whole.seek(0)
            with self.filesystem.open_output_stream(self.path, compression=None) as stream:
                shutil.copyfileobj(whole, stream)

    def drop_partials(self, recursive: bool = False) -> None:
        """Remove from this folder what writers that were killed left of their files."""
        if self.filesystem.type_name in _WHOLE_ON_CLOSE:
            return
        for info in self.files(recursive):
            if is_partial(info.base_name):
                self.at(info.path).delete()

    def copy_from(self, local: Path) -> None:
        """Write a file with the content of a local one."""
        self.write(local.read_bytes())

    def delete(self) -> None:
        """Remove the file or folder; nothing where there is none."""
        with suppress(FileNotFoundError):
            match self.info().type:
                case fs.FileType.File:
                    self.filesystem.delete_file(self.path)
                case fs.FileType.Directory:
                    self.filesystem.delete_dir(self.path)


def place_of(uri: str | os.PathLike[str]) -> Place:
    """A local path, or a URI of any kind that pyarrow or an fsspec package knows: s3://bucket/folder.

    Raises:
        InputError: nothing here knows such URIs, it needs a package or rights that are not there, it holds
            credentials, or is not UTF-8.
    """
    text = os.fspath(uri)
    check_uri(text)
    check_name(text)
    if not _URI.match(text) or ("://" not in text and Path(text).exists()):
        path = _absolute(text)
        return Place(fs.LocalFileSystem(), path, path)
    filesystem, path = _resolve(text)
    return Place(filesystem, path, path if isinstance(filesystem, fs.LocalFileSystem) else text)


def _absolute(path: str) -> str:
    """One spelling of a path, with its links; without `..`, where this is not behind a link."""
    absolute = str(Path(path).absolute())
    if ".." not in Path(absolute).parts:
        return absolute
    plain = os.path.normpath(absolute)
    return plain if os.path.realpath(plain) == os.path.realpath(absolute) else absolute


def _resolve(uri: str) -> tuple[fs.FileSystem, str]:
    hint = "a local path, or a URI such as s3://BUCKET/FOLDER"
    told = ""
    for form in (quoted(uri), f"fsspec+{uri}"):
        try:
            return _reached(form)
        except pa.ArrowInvalid as error:
            told = first_line(error)
        except (ImportError, ValueError, OSError, pa.ArrowException) as error:
            told = first_line(error)
            break
    raise InputError(uri, f"cannot be reached ({told})", hint)


def _reached(form: str) -> tuple[fs.FileSystem, str]:
    """As `FileSystem.from_uri`, which for each URI makes a client and asks where its bucket lies."""
    found = _OF_A_BUCKET.fullmatch(form)
    if found is None:
        return fs.FileSystem.from_uri(form)
    # A client holds the settings of its time, and the connections of its process.
    settings = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
    filesystem, bucket = _bucket(found[1], settings, os.getpid())
    return filesystem, bucket + unquote(found[2], errors="strict")


@lru_cache(16)
def _bucket(uri: str, _settings: tuple[tuple[str, str], ...], _process: int) -> tuple[fs.FileSystem, str]:
    return fs.FileSystem.from_uri(uri)
