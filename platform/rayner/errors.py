"""The errors that a user can act on: each says where, what, and what to do."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Any


class RaynerError(Exception):
    """Anything that rayner itself reports. The CLI prints it as one line and exits with `exit_status`."""

    exit_status = 1


class PlacedError(RaynerError):
    """An error at a place.

    Args:
        where: the place: `file:line`, a field, a row, a folder.
        what: what is wrong there.
        hint: what to do about it.
    """

    def __init__(self, where: str, what: str, hint: str = "") -> None:
        self.where, self.what, self.hint = where, what, hint
        super().__init__(f"{where}: {what}" + (f"; {hint}" if hint else ""))

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.where, self.what, self.hint)


class InputError(PlacedError):
    """Something that the user gave and can correct: `where` it is (`file:line`, a field, a row), `what` is
    wrong there, and a `hint` what to do about it."""

    exit_status = 2


class RecipeError(InputError):
    """A recipe, or a recipe beside the run that it is to resume."""


class CorpusError(InputError):
    """A corpus or a document of it."""


class FileError(InputError):
    """A file that cannot be read, whatever is in it: no fault of a document, and never a reject."""


class CheckpointError(InputError):
    """A checkpoint folder that cannot be used as it is."""


class KnowledgeBaseError(InputError):
    """A knowledge base or an entity of it."""


class DivergedError(InputError):
    """A training whose loss is no finite number any more."""


class IndexFolderError(InputError):
    """An index folder that cannot be used as it is."""


class StorageError(PlacedError):
    """Storage that failed: nothing is wrong with what lies there, and the same command may do next time.
    `where`, `what` and `hint` as of an InputError."""


def first_line(error: BaseException) -> str:
    """What an error says, without the advice that follows; its type where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def shown(value: Any) -> str:
    """The first 60 characters of what `repr` gives of plain values, of which no more is made: a few lines of
    YAML, with aliases, are lists of a size that no memory holds."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) >= 60:
            break
    return text[:60]


def _pieces(value: Any) -> Iterator[str]:
    if not isinstance(value, dict | list | tuple):
        yield repr(value)
        return
    begin, end = {dict: "{}", tuple: "()"}.get(type(value), "[]")
    yield begin
    for number, one in enumerate(value):
        yield ", " if number else ""
        yield from _pieces(one)
        if isinstance(value, dict):
            yield ": "
            yield from _pieces(value[one])
    yield end


def one_line(error: BaseException) -> str:
    """All that an error says, in a line; its type where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}


def storage_error(where: str, doing: str, error: BaseException) -> StorageError | None:
    """The error as one of the storage; None if it is none, as where a file is not there.

    Args:
        doing: what could not be done: `cannot be read`.
    """
    number = error.errno if isinstance(error, OSError) else None
    # safetensors reports the system's error as text.
    if number is None and (text := re.search(r"\(os error (\d+)\)", str(error))):
        number = int(text[1])
    if number is None or number in _ABSENT:
        return None
    hint = "fix the storage, then run the same command again: a run is resumed from what is stored"
    return StorageError(where, f"{doing} ({os.strerror(number)})", hint)
