"""Folders that are replaced as a whole, so that a killed process leaves the old one or the new one.

The new folder is written as `.NAME.partial`, flushed to the disk and renamed to `.NAME.new`: from there on it
is complete. Then the old one makes way. `settle_folder` finishes what a killed process had begun.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from rayner.errors import InputError, storage_error
from rayner.files.whole import FULL, make_folder

_TOLD_FULL = re.compile(r"No space left|^\d+ requested and \d+ written$")


def replace_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Put the folder that `write` fills in the place of `folder`.

    Raises:
        InputError: the disk is full; the old folder is as it was.
        StorageError: the storage failed otherwise; there is the old folder, or the new one.
    """
    partial, new, old = (_beside(folder, stage) for stage in ("partial", "new", "old"))
    try:
        settle_folder(folder)
        make_folder(partial.parent)
        partial.mkdir()
        write(partial)
        flush_folder(partial)
        partial.rename(new)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        _flush_entry(folder.parent)
    except Exception as error:
        shutil.rmtree(partial, ignore_errors=True)
        if _is_full(error):
            what = "no room to write it; what was there before is unharmed"
            raise InputError(str(folder), what, "free some space and run the same command again") from error
        what = "cannot be written, but what was there before is unharmed"
        if failure := storage_error(str(folder), what, error):
            raise failure from error
        raise
    shutil.rmtree(old, ignore_errors=True)


def place_folder(partial: Path, folder: Path) -> None:
    """Give a folder that is complete its name, under which there is none yet."""
    flush_folder(partial)
    partial.rename(folder)
    _flush_entry(folder.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder; who is just reading it finds it gone, rather than a file of it missing."""
    old = _beside(folder, "old")
    shutil.rmtree(old, ignore_errors=True)
    folder.rename(old)
    shutil.rmtree(old, ignore_errors=True)


def is_left_over(name: str) -> bool:
    """Whether a killed process may have left the folder of this name beside one that it replaced."""
    return name.startswith(".") and name.endswith((".partial", ".new", ".old"))


def name_of_new(name: str) -> str | None:
    """The name that a complete folder gets next, of the one that it has until then; None for another name."""
    return name[1:-4] if name.startswith(".") and name.endswith(".new") else None


def settle_folder(folder: Path) -> None:
    """Finish a replacement that was cut short, or undo it."""
    partial, new, old = (_beside(folder, stage) for stage in ("partial", "new", "old"))
    if new.exists():
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        new.rename(folder)
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _beside(folder: Path, stage: str) -> Path:
    return folder.with_name(f".{folder.name}.{stage}")


def _is_full(error: BaseException) -> bool:
    # safetensors reports the system's error as text, NumPy how much of an array was written.
    is_told = _TOLD_FULL.search(str(error)) is not None
    return is_told or (isinstance(error, OSError) and error.errno in FULL)


def flush_folder(folder: Path) -> None:
    """Have on the disk what is in a folder: a power cut may else leave its files empty."""
    for path in folder.rglob("*"):
        if path.is_file():
            # safetensors writes files that only their owner may read.
            path.chmod(0o644)
        _flush_entry(path)
    _flush_entry(folder)


def _flush_entry(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
