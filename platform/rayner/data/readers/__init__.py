"""Corpora in any format: find the units of work, read them, one by one or all at once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rayner.counted import counted
from rayner.data.readers.base import FileUnit, Reading, Reject
from rayner.data.readers.detect import (
    Listing,
    PathLikes,
    by_format,
    detect,
    files_for,
    list_files,
    other_files,
    unread,
)
from rayner.data.readers.formats import FORMATS
from rayner.data.readers.merge import merge
from rayner.data.warned_once import warn_once
from rayner.errors import CorpusError
from rayner.files.fetching import local
from rayner.files.uris import with_uris

__all__ = [
    "FORMATS",
    "FileUnit",
    "Reading",
    "Reject",
    "detect",
    "find_parts",
    "find_units",
    "merge",
    "read_corpus",
    "read_unit",
    "read_unmerged",
]

log = logging.getLogger(__name__)


def find_units(paths: PathLikes, format: str = "auto") -> list[FileUnit]:
    """The units of files and folders, in the order of their paths, ready for one parallel task each.

    The paths may be of several formats, but not the files of one folder. The log names files of another kind.
    """
    groups = _groups(paths, format)
    for name, group in groups.items():
        aside = set(other_files(group, name))
        for listing in group:
            left = [path for path in listing.files if path in aside]
            if not left:
                continue
            more = f" and {counted(len(left) - 1, 'more file')}" if len(left) > 1 else ""
            told = f"left aside, as no {name}: {with_uris(str(left[0]))}{more}"
            if len(left) == len(listing.files):
                folder = with_uris(str(listing.path))
                told = f"{folder}: nothing of this folder is read; {told}; name it in a command of its own"
            warn_once(log, told)
        if named := unread(group, name):
            more = f" and {counted(len(named) - 1, 'more file')}" if len(named) > 1 else ""
            first = with_uris(str(named[0]))
            warn_once(log, f"left aside for its name: {first}{more}; name a file itself to have it read")
    return _units(groups)


def find_parts(unit: FileUnit) -> list[FileUnit]:
    """A unit of a large file as parts of it, where its format can be read from the middle.

    Parts hold the same documents with the same names and places, and the same cannot be read. A packed file
    (`.gz`) has to be read from its start.

    Raises:
        FileError: the file cannot be read.
        OSError: the system fails to read it.
    """
    parts = FORMATS[unit.format].parts
    return [unit] if parts is None else parts(_here(unit))


def read_unit(unit: FileUnit) -> Reading:
    """What a unit holds, each document once; a unit of which nothing can be understood is one reject.

    Raises:
        FileError: a file that cannot be read.
    """
    return merge([read_unmerged(unit)])


def read_unmerged(unit: FileUnit) -> Reading:
    """As `read_unit`, also the documents whose id an earlier one has."""
    try:
        reading = FORMATS[unit.format].read(_here(unit))
    except CorpusError as error:
        reading = Reading()
        reading.reject(error.where, error.what, error.hint)
    if not reading.documents and not reading.rejects and unit.span is None:
        aside = "; ".join(f"{reason} ({count})" for reason, count in sorted(reading.ignored.items()))
        what = f"no documents in it, less what is left out: {aside}" if aside else "no documents in it"
        reading.reject(unit.paths[0], what, "remove it, or restore its content")
    return reading


def read_corpus(paths: PathLikes, format: str = "auto") -> Reading:
    """All documents of files and folders.

    Args:
        format: `auto`, or the name of one of docs/formats.md.

    Raises:
        CorpusError: no such path or format, files of no known format or of several in one folder, or not one
            document that can be read.
        FileError: a file or folder that cannot be read.
    """
    groups = _groups(paths, format)
    reading = merge(map(read_unit, _units(groups)))
    for name, group in groups.items():
        if aside := other_files(group, name):
            reading.ignored["file of another kind"] += len(aside)
    if not reading.documents:
        first = reading.rejects[0]
        raise CorpusError(first.where, first.what, first.hint)
    return reading


def _here(unit: FileUnit) -> FileUnit:
    """The unit with files of this machine: another one may have found it."""
    paths = tuple(str(local(path)) for path in unit.paths)
    return unit if paths == unit.paths else replace(unit, paths=paths)


def _units(groups: Mapping[str, Sequence[Listing]]) -> list[FileUnit]:
    return [unit for name, group in groups.items() for unit in FORMATS[name].units(files_for(group, name))]


def _groups(paths: PathLikes, format: str) -> Mapping[str, Sequence[Listing]]:
    if format == "auto":
        return by_format(list_files(paths))
    if format not in FORMATS:
        raise CorpusError("format", f"no format {format!r}", f"one of auto, {', '.join(FORMATS)}")
    return {format: list_files(paths)}
