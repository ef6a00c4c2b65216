"""A copy of a folder that others write in."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rayner.errors import StorageError
from rayner.files.folders import name_of_new
from rayner.files.whole import is_partial, link_or_copy, partial_name

_TRIES = 20
_PAUSE = 0.05
_COPIED = 2**24
_REPLACED = frozenset({".safetensors", ".npy", ".faiss", ".parquet"})
"""Files that are written once, under another name or in another folder. Any other may be appended to, such as
logs, answers and TensorBoard's events: of a link more would be uploaded than was hashed."""
_ASIDE = re.compile(r"\..*\.(partial|new|old|lock)|\.lock|\.examples|ray")
"""What is under way, or of this machine alone: Ray's own files, and examples that can be made again."""


def is_aside(name: str) -> bool:
    """Whether a file or folder of this name is no part of what is put in place."""
    return bool(_ASIDE.fullmatch(name)) or is_partial(name)


@contextmanager
def snapshot(folder: Path) -> Generator[Path]:
    """The folder as it is now, though others write in it: what replaces a folder in it is taken whole.

    Raises:
        StorageError: folders in it were replaced all the time.
    """
    target = folder.with_name(partial_name(folder.name))
    try:
        _snap(folder, target)
        yield target
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _snap(folder: Path, target: Path) -> None:
    for _ in range(_TRIES):
        try:
            return _snap_once(folder, target)
        except FileNotFoundError:
            shutil.rmtree(target)
            time.sleep(_PAUSE)
    raise StorageError(str(folder), "changes all the time", "run the same command again")


def _snap_once(folder: Path, target: Path) -> None:
    """Raise FileNotFoundError if another folder has taken the name meanwhile."""
    target.mkdir(parents=True)
    with _held(folder) as opened:
        _copy(folder, target)
        if not os.path.samestat(folder.stat(), opened):
            raise FileNotFoundError(folder)


def _copy(folder: Path, target: Path) -> None:
    paths = list(folder.iterdir())
    names = {path.name for path in paths}
    for path in paths:
        if (name := name_of_new(path.name)) is not None and name not in names:
            # Complete, and about to get its name, which no other folder has in this moment.
            _snap_once(path, target / name)
        elif is_aside(path.name):
            continue
        elif path.is_dir():
            _snap(path, target / path.name)
        elif path.suffix not in _REPLACED or path.stat().st_size < _COPIED:
            shutil.copyfile(path, target / path.name)
        else:
            # A checkpoint or an index is large, and is put in place every minute.
            link_or_copy(path, target / path.name)


@contextmanager
def _held(folder: Path) -> Generator[os.stat_result]:
    """The folder that has the name now, open: as long as it is, no other one gets its number."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield os.fstat(opened)
    finally:
        os.close(opened)
