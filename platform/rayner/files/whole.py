"""Files that are there whole or not at all, whenever their writer is killed."""

from __future__ import annotations

import errno
import gzip
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rayner.errors import InputError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Numbers of errors for which there is no room."""
_PLACE_HINT = "name a place that can be written to"
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{16}\.partial")


def partial_name(name: str) -> str:
    """The name under which a file is written before it takes its place; no other writer has the same."""
    # Not the process's id: pods that share a folder number their processes alike.
    return f".{name}.{secrets.token_hex(8)}.partial"


def is_partial(name: str) -> bool:
    """Whether a killed writer left the file of this name."""
    return bool(_PARTIAL.fullmatch(name))


def drop_partials(folder: Path) -> None:
    """Remove from a folder, which nobody else writes, what killed writers left of their files."""
    for path in folder.iterdir():
        if is_partial(path.name):
            path.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing.

    Raises:
        InputError: nothing can be made there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:
        # Folders above are no reason: in /proc the system answers so.
        raise InputError(str(folder), "no folder can be made there", _PLACE_HINT) from None


@contextmanager
def told_of(where: object, hint: str) -> Iterator[None]:
    """Within it, what the system says of writing is told of a place.

    Args:
        hint: what to do where it cannot be written to at all.

    Raises:
        InputError: nothing can be written there.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in FULL:
            what = f"there is no room to write it ({reason})"
            raise InputError(str(where), what, "free some space there") from None
        raise InputError(str(where), f"cannot be written to ({reason})", hint) from None


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` once the writing has succeeded.

    Raises:
        InputError: nothing can be made there.
    """
    make_folder(path.parent)
    partial = path.with_name(partial_name(path.name))
    try:
        yield partial
    except FileNotFoundError as error:
        if error.filename != str(partial):
            raise
        raise InputError(str(path), "no file can be made there", _PLACE_HINT) from None
    else:
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file another name, or a copy where the file system has no links, or no more of them.

    Raises:
        FileExistsError: there is one of that name.
    """
    try:
        os.link(source, target)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:
        with whole_file(target) as path:
            shutil.copyfile(source, path)


@contextmanager
def text_file(path: Path) -> Iterator[TextIO]:
    """A UTF-8 file to write, packed where its name ends in .gz; line ends are written as they are given."""
    with whole_file(path) as partial:
        opened: Callable[..., TextIO] = gzip.open if path.suffix == ".gz" else open  # type: ignore[assignment]
        with opened(partial, "wt", encoding="utf-8", newline="") as file:
            yield file


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with whole_file(path) as partial:
        partial.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all; of its values as `plain`."""
    write_bytes(path, json.dumps(plain(value), indent=1, ensure_ascii=False).encode())


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON lines, an object each, whole or not at all."""
    with text_file(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def plain(value: Any) -> Any:
    """The value in JSON's types; numbers that JSON lacks become null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
