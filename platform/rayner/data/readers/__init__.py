"""Corpora in any format: find the units of work, read them, one by one or all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rayner.data.readers.base import Reading, Reject, Unit
from rayner.data.readers.detect import PathLikes, by_format, detect, files_for, other_files
from rayner.data.readers.formats import FORMATS
from rayner.data.readers.merge import merge
from rayner.errors import CorpusError
from rayner.files.fetching import local

__all__ = [
    "FORMATS",
    "Reading",
    "Reject",
    "Unit",
    "detect",
    "find_parts",
    "find_units",
    "merge",
    "read_corpus",
    "read_unit",
]


def find_units(paths: PathLikes, format: str = "auto") -> list[Unit]:
    """The units of files and folders, in the order of their paths, ready for one parallel task each.

    The paths may be of several formats, but not the files of one folder.
    """
    groups = _groups(paths, format)
    return [unit for name, group in groups.items() for unit in FORMATS[name].units(files_for(group, name))]


def find_parts(unit: Unit) -> list[Unit]:
    """A unit of a large file as parts of it, where its format can be read from the middle.

    Parts hold the same documents with the same names and places. What is wrong with a whole file (text that
    is not UTF-8) is wrong with the part that has it.

    Raises:
        FileError: the file cannot be read.
    """
    parts = FORMATS[unit.format].parts
    return [unit] if parts is None else parts(_here(unit))


def read_unit(unit: Unit) -> Reading:
    """What a unit holds; a unit of which nothing can be understood is one reject.

    Raises:
        FileError: a file that cannot be read.
    """
    try:
        reading = FORMATS[unit.format].read(_here(unit))
    except CorpusError as error:
        reading = Reading()
        reading.reject(error.where, error.what, error.hint)
    if not reading.documents and not reading.rejects and unit.span is None:
        reading.reject(unit.paths[0], "no documents in it", "remove it, or restore its content")
    return merge([reading])


def read_corpus(paths: PathLikes, format: str = "auto") -> Reading:
    """All documents of files and folders; an error where there is not one that can be read."""
    reading = merge(map(read_unit, find_units(paths, format)))
    for name, group in _groups(paths, format).items():
        if aside := other_files(group, name):
            reading.ignored["file of another kind"] += len(aside)
    if not reading.documents:
        first = reading.rejects[0]
        raise CorpusError(first.where, first.what, first.hint)
    return reading


def _here(unit: Unit) -> Unit:
    """The unit with files of this machine: another one may have found it."""
    paths = tuple(str(local(path)) for path in unit.paths)
    return unit if paths == unit.paths else replace(unit, paths=paths)


def _groups(paths: PathLikes, format: str) -> Mapping[str, PathLikes]:
    if format == "auto":
        return by_format(paths)
    if format not in FORMATS:
        raise CorpusError("--format", f"no format {format!r}", f"one of auto, {', '.join(FORMATS)}")
    return {format: paths}
