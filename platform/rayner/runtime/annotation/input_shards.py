"""What `annotate` reads: the files of its inputs, also those added later, and the shards to read them in."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import fs

from rayner.data.example_shards import canonical_digest
from rayner.data.readers import files
from rayner.data.readers.base import as_written
from rayner.data.readers.detect import COUNTS, OF_A_CONVERSION, is_documentation
from rayner.errors import CorpusError, InputError
from rayner.files.manifests import Manifest, find_manifest
from rayner.files.places import Place, place_of
from rayner.files.uris import check_name

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".txt": "text",
    ".text": "text",
}
FILES_PER_SHARD = 4096
SHARD_BYTES = 64 * 2**20
BLOCKS = 64
LEAST_BLOCK, MOST_BLOCK = 2**16, 2**23
"""Blocks are many, so that all actors have work until the end and a killed one loses little."""
_MARKS = {
    **dict.fromkeys(("_jsonl", "_brat", "_rejects.jsonl", "_inputs.arrow", "_writer"), "_annotation.json"),
    "_annotation.json": "_annotation.json",
    **dict.fromkeys(("_objects", "_manifest.json"), "_manifest.json"),
}
"""What lies in a folder of ours with an underscore in front, and the file that tells that it is ours."""
_CONVERT = "make Parquet of it with `rayner corpus convert`, or write JSON lines with a `text` each"


@dataclass(frozen=True, slots=True)
class Source:
    """A file: a text, or many documents. `name` is what documents without an id are named after."""

    place: Place
    format: str
    name: str
    size: int
    modified: int


Shard = tuple[Source, ...]
"""What one task reads, in order: a file of many documents, or many texts."""


class Addition(NamedTuple):
    """Files that were added to the input together, and the bytes of their blocks.

    The first are what it began with. Each addition has its own shards, after those of the others, so that
    blocks keep their numbers.
    """

    sources: tuple[Source, ...]
    block_bytes: int


class Left(NamedTuple):
    """What is not read of folders and may be missed: names of files that are left aside, and of links to
    nothing."""

    aside: list[str]
    dangling: list[str]


def find_sources(inputs: Sequence[str]) -> tuple[list[Source], Left]:
    """The files of paths and URIs, in order, and what is left of folders.

    Raises:
        CorpusError: an input that is not there, or not of a format that is annotated.
        InputError: a URI that cannot be reached or has an empty part, or a name that is not UTF-8.
    """
    found: dict[str, _File] = {}
    aside: dict[str, None] = {}
    dangling: list[str] = []
    for given in inputs:
        place = place_of(given)
        _check_parts(place.shown)
        listed = _files(place, dangling)
        names = {file.name for file in listed}
        for file in listed:
            if file.name and (_is_aside(file.name) or _format(file.place.shown) is None):
                if not _is_silent(file, names):
                    aside[file.place.shown] = None
            elif _format(file.place.shown) is None:
                known = ", ".join(FORMATS)
                raise CorpusError(
                    place.shown, f"its name ends in none of {known} (or those with .gz)", _CONVERT
                )
            else:
                check_name(file.place.shown)
                _check_parts(file.place.shown)
                found.setdefault(file.place.shown, file)
    if not found:
        others = any(_format(shown) is None for shown in aside)
        hint = _CONVERT if others else "name a file or a folder that holds some"
        raise CorpusError(", ".join(inputs) or "annotate", "no Parquet, JSONL or text files", hint)
    # What is left of a folder may be named itself.
    left = Left([as_written(shown) for shown in aside if shown not in found], list(map(as_written, dangling)))
    return _named(list(found.values())), left


def _check_parts(shown: str) -> None:
    if "//" in shown.partition("://")[2]:
        # Storage may hold such a key, and what reads storage knows no such path.
        raise InputError(shown, "has an empty part between two slashes", "rename the object")


def cut_shards(sources: Sequence[Source]) -> list[Shard]:
    """Files of many documents alone; texts together, and JSON lines where many files hold a few each."""
    small = [s for s in sources if s.format == "jsonl" and s.size <= LEAST_BLOCK]
    together = {"text", "jsonl"} if len(small) > BLOCKS else {"text"}
    shards: list[Shard] = []
    held: dict[str, list[Source]] = {"text": [], "jsonl": []}
    sizes = dict.fromkeys(held, 0)
    for source in sources:
        if source.format not in together or (source.format == "jsonl" and source.size > LEAST_BLOCK):
            shards.append((source,))
            continue
        files = held[source.format]
        if files and (len(files) == FILES_PER_SHARD or sizes[source.format] + source.size > SHARD_BYTES):
            shards.append(tuple(files))
            files.clear()
            sizes[source.format] = 0
        files.append(source)
        sizes[source.format] += source.size
    return [*shards, *(tuple(files) for files in held.values() if files)]


def shards_of(additions: Iterable[Addition]) -> list[tuple[Shard, int]]:
    """The shards of all additions in order, each with the bytes of its blocks."""
    return [(shard, added.block_bytes) for added in additions for shard in cut_shards(added.sources)]


def addition(sources: Sequence[Source]) -> Addition:
    """Files as they were found."""
    total = sum(source.size for source in sources)
    return Addition(tuple(sources), max(LEAST_BLOCK, min(MOST_BLOCK, total // BLOCKS)))


def grown(earlier: pa.Table, sources: Sequence[Source]) -> list[Addition] | None:
    """The additions of an earlier run, and a last one with those files that it did not have, if any.

    Args:
        earlier: as `additions_to_table` makes it.

    Returns:
        None where a file of the earlier run is gone or is another one now.
    """
    new = {source.place.shown: source for source in sources}
    known: dict[int, list[Source]] = {}
    block_bytes: dict[int, int] = {}
    for row in earlier.to_pylist():
        found = new.pop(row["place"], None)
        if found is None or any(getattr(found, key) != row[key] for key in ("format", "size", "modified")):
            return None
        # Its documents without an id have the name that it had when it was alone.
        known.setdefault(row["addition"], []).append(replace(found, name=row["name"]))
        block_bytes[row["addition"]] = row["block_bytes"]
    additions = [Addition(tuple(files), block_bytes[number]) for number, files in sorted(known.items())]
    if not new:
        return additions
    names = {(source.format == "text", source.name) for added in additions for source in added.sources}
    unique = [
        s if (s.format == "text", s.name) not in names else replace(s, name=s.place.shown)
        for s in new.values()
    ]
    return [*additions, addition(unique)]


def additions_to_table(additions: Iterable[Addition]) -> pa.Table:
    """A row a file: what tells it from another one, its name, and of which addition it is."""
    rows = [
        {
            "addition": number,
            "block_bytes": added.block_bytes,
            "place": source.place.shown,
            "format": source.format,
            "name": source.name,
            "size": source.size,
            "modified": source.modified,
        }
        for number, added in enumerate(additions)
        for source in added.sources
    ]
    return pa.Table.from_pylist(rows)


def digest_of(sources: Iterable[Source]) -> str:
    """A hash of the files' names, sizes and times."""
    rows = [(s.place.shown, s.format, s.name, s.size, s.modified) for s in sources]
    return canonical_digest(rows)


class _File(NamedTuple):
    """A file of an input: its name in the folder that was given, none for the file itself."""

    place: Place
    name: str
    size: int
    modified: int


def _files(place: Place, dangling: list[str]) -> list[_File]:
    """The files of an input; links of its folders that lead to nothing are noted in `dangling`."""
    try:
        info = place.info()
        if info.type == fs.FileType.File:
            return [_plain(place, "", info, place.times_of([info]))]
        if place.is_local and info.type == fs.FileType.Directory:
            return sorted(_inside(place, dangling), key=lambda file: file.place.path)
        described = None if place.is_local else find_manifest(place)
        if described is not None and (files_of := _put_in_place(place, *described)):
            return files_of
        # What is not of a folder that was put in place may be somebody's own below it.
        if info.type == fs.FileType.Directory and (described is None or described[2]):
            found = place.files(recursive=True)
            names = [one.path[len(place.path) :].strip("/") for one in found]
            times = place.times_of(found)
            return [
                _plain(place.at(one.path), name, one, times) for one, name in zip(found, names, strict=True)
            ]
    except OSError as error:
        raise CorpusError(
            place.shown, f"cannot be listed ({error})", "correct the path or its rights"
        ) from None
    if info.type == fs.FileType.Unknown:
        raise CorpusError(place.shown, "is a pipe or a device", "write it to a file, and name that")
    raise CorpusError(place.shown, "no such file or folder", "correct the path")


def _inside(place: Place, dangling: list[str]) -> Iterator[_File]:
    """The files below a folder of this machine. Links are followed, but not to a folder that they lie in.

    A link to nothing is no error, as it is none to other readers; hidden ones are locks of editors.
    """
    start, about = place.path.rstrip("/"), os.stat(place.path)
    left = [("", frozenset({(about.st_dev, about.st_ino)}))]
    while left:
        folder, around = left.pop()
        for entry in os.scandir(f"{start}/{folder}"):
            try:
                about = entry.stat()
            except OSError as error:
                # A link to nothing, or links that lead to each other.
                if error.errno not in (errno.ENOENT, errno.ELOOP):
                    raise
                if entry.is_symlink() and not _is_hidden(f"{folder}{entry.name}"):
                    dangling.append(f"{start}/{folder}{entry.name}")
                continue
            name, own = f"{folder}{entry.name}", (about.st_dev, about.st_ino)
            if stat.S_ISREG(about.st_mode):
                yield _File(place.at(f"{start}/{name}"), name, about.st_size, about.st_mtime_ns)
            elif stat.S_ISDIR(about.st_mode) and own not in around:
                left.append((f"{name}/", around | {own}))


def _plain(place: Place, name: str, info: fs.FileInfo, times: Mapping[str, str]) -> _File:
    told = times.get(info.path, "0")
    modified = int(told) if told.isdecimal() else int(hashlib.sha256(told.encode()).hexdigest()[:15], 16)
    return _File(place, name, max(0, info.size or 0), modified)


def _put_in_place(place: Place, base: Place, manifest: Manifest, rest: str) -> list[_File]:
    """Files that a command of ours put in place: each is read where its object lies, and has its own name."""
    found = []
    for name, entry in sorted(manifest.below(rest).items()):
        inside = "" if rest in manifest.files else name
        shown = f"{place.shown.rstrip('/')}/{inside}".rstrip("/")
        file = Place(place.filesystem, base.below(entry.object).path, shown)
        # Its content tells it from another one, as the time of a file does.
        found.append(_File(file, inside, entry.size, int(entry.sha256[:15], 16)))
    return found


def _format(path: str) -> str | None:
    return FORMATS.get(files.suffix(Path(path)))


def _is_aside(name: str) -> bool:
    """Hidden files, documentation, what a conversion says of itself, and the empty marks of an object
    store's folders."""
    path = Path(name)
    hidden = any(part.startswith((".", "_")) for part in name.split("/"))
    return hidden or is_documentation(path) or path.name in OF_A_CONVERSION


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _is_silent(file: _File, names: Collection[str]) -> bool:
    """Whether nobody misses a file that is left aside: it is hidden or empty, documentation that would not be
    read by any name, or what a command of ours left beside its documents.

    Args:
        names: of all files of the folder.
    """
    if _is_hidden(file.name) or not file.size:
        return True
    path = Path(file.name)
    if path.name in OF_A_CONVERSION:
        return str(path.with_name(COUNTS)) in names
    own = next((depth for depth, part in enumerate(path.parts) if part.startswith("_")), None)
    if own is not None:
        home = "/".join(path.parts[:own])
        mark = _MARKS.get(path.parts[own])
        return mark is not None and f"{home}/{mark}".lstrip("/") in names
    return _format(file.name) is None and is_documentation(path)


def _named(found: Sequence[_File]) -> list[Source]:
    """Names are unique among texts, and among files of rows, whose documents have numbers behind them."""
    formats = [_format(file.place.shown) or "" for file in found]
    paths: dict[bool, list[Path]] = {}
    for file, format in zip(found, formats, strict=True):
        paths.setdefault(format == "text", []).append(Path("/", file.place.shown))
    names = {
        path: name for group in paths.values() for path, name in zip(group, files.names(group), strict=True)
    }
    return [
        Source(file.place, format, names[Path("/", file.place.shown)], file.size, file.modified)
        for file, format in zip(found, formats, strict=True)
    ]
