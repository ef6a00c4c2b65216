"""Files in folders, and the format that they are in."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from rayner.data.json_lines import hint_for
from rayner.data.readers import brat, files
from rayner.data.readers.formats import FORMATS
from rayner.data.warned_once import warn_once
from rayner.errors import CorpusError
from rayner.files.fetching import local
from rayner.files.uris import check_name, with_uris, without_file_scheme

log = logging.getLogger(__name__)

PathLikes = str | PathLike[str] | Iterable[str | PathLike[str]]

LOOKED_AT = 5
"""How many files of one folder and suffix are opened to tell their format."""

_DOCUMENTATION = ("readme", "license", "licence", "source", "changelog", "rejects")
COUNTS, LOSSES, REJECTS = "counts.json", "losses.jsonl", "rejects.jsonl"
OF_A_CONVERSION = (COUNTS, LOSSES, REJECTS)
"""What `corpus convert` leaves beside the documents."""
_TEXT_SUFFIXES = (
    "",
    ".txt",
    ".text",
    ".tsv",
    ".conll",
    ".iob",
    ".iob2",
    ".iobes",
    ".bio",
    ".bioes",
    ".pubtator",
)
_BESIDE_TEXTS = ("brat", "livingner")
"""Formats whose annotations lie in other files than their texts."""
_RARE = (
    *(".train", ".testa", ".testb", ".dev", ".test"),
    *(".v4_gold_conll", ".conllu", ".conllup"),
)
"""Suffixes of CoNLL's own names (`eng.testa`), of folders that hold nothing else to read."""
_OF_JSON = ("jsonl", "ufet", "figer", "label_studio", "prodigy", "doccano", "gliner")
_SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "docbin": (".spacy",),
    **dict.fromkeys(_OF_JSON, (".jsonl", ".ndjson", ".json")),
    "bioc": (".xml", ".bioc", ".json", ".jsonl", ".ndjson"),
    "brat": (".ann", ".txt"),
    "huggingface": (".arrow", ".parquet", ".pq"),
    "livingner": (".tsv", ".txt"),
    "text": (".txt", ".text"),
}
_OF_DATA = frozenset((*chain.from_iterable(_SUFFIXES.values()), *_TEXT_SUFFIXES)) - {"", ".txt", ".text"}
"""Suffixes of files that hold data, whatever they are called."""


class Listing(NamedTuple):
    """A path as it was given, and its files: itself, or those of the folder that it is.

    `aside`: what the folder holds beside them and somebody may miss, as its name says that it is no document.
    """

    path: Path
    files: list[Path]
    is_folder: bool
    aside: Sequence[Path] = ()


def list_files(paths: PathLikes) -> list[Listing]:
    """The files of paths, which nobody needs to list again.

    Folders are searched below, less hidden files and documentation (README, ...).

    Raises:
        CorpusError: no such path, or one that can be read only once.
        FileError: a folder that cannot be listed.
    """
    found = []
    for path in _as_paths(paths):
        if not path.exists():
            raise CorpusError(str(path), "no such file or folder", "correct the path")
        is_folder = path.is_dir()
        if not is_folder and not path.is_file():
            # Its format is told by its first bytes, which would be gone when it is read.
            raise CorpusError(str(path), "is a pipe or a device", "write it to a file, and name that")
        aside: list[Path] = []
        inside = list(_inside(path, aside)) if is_folder else [path]
        found.append(Listing(path, inside, is_folder, aside))
    return found


def by_format(listings: Sequence[Listing]) -> dict[str, list[Listing]]:
    """The paths by their format, in order; each path by itself must be of one.

    Raises:
        CorpusError: as `detect`.
    """
    found, _ = _formats_in(listings)
    groups: dict[str, list[Listing]] = {}
    if len(found) < 2 or len(listings) == 1:
        whole = _only_format(listings)
        if len(listings) == 1 or whole in ("text", *_BESIDE_TEXTS) or "text" not in _seen_in(listings)[0]:
            return {whole: list(listings)}
        suffix = files.suffix(found[whole])
        for listing in listings:
            groups.setdefault("text" if _is_text_apart(listing, suffix) else whole, []).append(listing)
        return groups
    for listing in listings:
        groups.setdefault(_only_format([listing]), []).append(listing)
    return groups


def _is_text_apart(listing: Listing, suffix: str) -> bool:
    """Whether a path beside others of a format holds texts alone, and its files are called otherwise than
    theirs: a few rows of columns may look like a text."""
    if not listing.files:
        return False
    seen, strange = _seen_in([listing])
    return not strange and seen.keys() == {"text"} and files.suffix(seen["text"]) != suffix


def detect(paths: PathLikes, otherwise: str = "") -> str:
    """The format of files or folders; where there is none, or more than one, an error names what was seen.

    Args:
        otherwise: what to do about files in no known format, where that is not to write a corpus.
    """
    return _only_format(list_files(paths), otherwise)


def _only_format(listings: Sequence[Listing], otherwise: str = "") -> str:
    found, strange = _formats_in(listings)
    if len(found) == 1:
        return next(iter(found))
    hint = f"give --format to `rayner corpus convert`: {', '.join(FORMATS)}"
    if not found:
        if all(not path.stat().st_size for path in strange):
            raise CorpusError(str(strange[0]), "an empty file", "remove it, or restore its content")
        if files.is_packed(strange[0]) and not files.sample(strange[0]).lines:
            files.read_bytes(strange[0])
        what = f"no known format; looked at {_seen(strange)}"
        hint = otherwise or f"{hint}; or write JSON lines with a `text` each"
        hint = files.hint_by_first_bytes(strange[0]) or hint_for(_first_line(strange[0]), hint)
        raise CorpusError(_named(listings), what, hint)
    several = ", ".join(f"{name} ({path})" for name, path in found.items())
    raise CorpusError(_named(listings), f"several formats: {several}", f"name one of the folders, or {hint}")


def _formats_in(listings: Sequence[Listing]) -> tuple[dict[str, Path], list[Path]]:
    """A file of each format that counts, and files of none."""
    found, strange = _seen_in(listings)
    if strange and "text" in found:
        # Whatever they are, they are why the texts are there; reading the texts alone would hide it.
        del found["text"]
    if len(found) > 1:
        # Texts stand beside annotations; what has none becomes a reject of the format that has.
        found.pop("text", None)
    return found, strange


def _seen_in(listings: Sequence[Listing]) -> tuple[dict[str, Path], list[Path]]:
    """A file of each format, and files of none."""
    found: dict[str, Path] = {}
    strange: list[Path] = []
    looked_at = Counter[tuple[str, str]]()
    for path in sorted(_all_files(listings), key=_may_document):
        if found and _may_document(path):
            # It may be about the corpus, whatever it is written in.
            break
        group = os.path.dirname(path), files.suffix(path)
        looked_at[group] += 1
        if looked_at[group] > LOOKED_AT:
            continue
        name = _format_of(path)
        if name is None:
            strange.append(path)
        else:
            found.setdefault(name, path)
    return found, strange


def files_for(listings: Sequence[Listing], format: str) -> list[Path]:
    """The files that a format may be in: those that are named, and those of folders with its suffixes.

    Raises:
        CorpusError: there are none.
        InputError: the name of one is not UTF-8.
    """
    named = {listing.path for listing in listings if not listing.is_folder}
    suffixes = _SUFFIXES.get(format, _TEXT_SUFFIXES)
    found = (path for path in _all_files(listings) if path in named or files.suffix(path) in suffixes)
    kept = [path for path in found if path in named or not _may_document(path) or _format_of(path) == format]
    if not kept and format not in _SUFFIXES:
        kept = [path for path in _all_files(listings) if files.suffix(path) in _RARE]
    if not kept:
        what = f"no {format} files ({', '.join(filter(None, suffixes))})"
        raise CorpusError(_named(listings), what, "name the files one by one, or rename them")
    for path in kept:
        check_name(str(path))
    return kept


def other_files(listings: Sequence[Listing], format: str) -> list[Path]:
    """The files of folders that `files_for` leaves aside for their suffix."""
    kept = files_for(listings, format)
    if sum(len(listing.files) for listing in listings) == len(kept):
        return []
    return sorted(set(_all_files(listings)).difference(kept))


def unread(listings: Sequence[Listing], format: str) -> list[Path]:
    """The files of folders that their names keep from being read, and whose suffix is of the format."""
    suffixes = _SUFFIXES.get(format, _TEXT_SUFFIXES)
    found = [path for listing in listings for path in listing.aside if files.suffix(path) in suffixes]
    # Beside annotations, a text of such a name documents them.
    return [path for path in found if path.name.startswith("_") or _format_of(path) == format]


def is_documentation(path: Path) -> bool:
    """Whether a file of a folder is about the corpus, by its name."""
    return files.stem(path).lower() in _DOCUMENTATION and files.suffix(path) not in _OF_DATA


def _may_document(path: Path) -> bool:
    """Whether a file with data may be about the corpus, by its name; notes of brat are about their text."""
    suffix = files.suffix(path)
    return suffix in _OF_DATA and suffix != ".ann" and files.stem(path).lower() in _DOCUMENTATION


def _all_files(listings: Sequence[Listing]) -> Iterable[Path]:
    """Each once, in order."""
    found: Iterable[Path] = chain.from_iterable(listing.files for listing in listings)
    if len(listings) > 1:
        found = dict.fromkeys(found)
    if not any(listing.files for listing in listings):
        aside = [path.name for listing in listings for path in listing.aside]
        what = f"no files but {aside[0]}, which its name keeps from being read" if aside else "no files"
        hint = "name the file itself" if aside else "name a file or a folder that holds some"
        raise CorpusError(_named(listings), what, hint)
    return found


def _inside(folder: Path, aside: list[Path], known: tuple[Path, ...] = ()) -> Iterator[Path]:
    """The files below a folder, in the order of their paths. Links are followed, to folders only where these
    lie apart from the `known` ones, which are listed anyhow. Takes note of what it leaves aside."""
    known = known or (folder.resolve(),)
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise files.unreadable(folder, error) from None
    for entry in found:
        if entry.name.startswith("."):
            continue
        path = folder / entry.name
        if entry.name.startswith("_"):
            # Empty ones are the marks that other tools leave, such as `_SUCCESS`.
            aside += [path] if entry.is_file() and entry.stat().st_size else []
        elif entry.is_dir(follow_symlinks=False):
            yield from _inside(path, aside, known)
        elif entry.is_symlink() and path.is_dir():
            target = path.resolve()
            if not any(target.is_relative_to(one) or one.is_relative_to(target) for one in known):
                yield from _inside(path, aside, (*known, target))
        elif path.is_file() if entry.is_symlink() else entry.is_file():
            if not _is_aside(path):
                yield path
            elif is_documentation(path):
                aside.append(path)
        elif entry.is_symlink() and not path.exists():
            warn_once(log, f"left out: {with_uris(str(path))} is a link to nothing")


def _format_of(path: Path) -> str | None:
    sample = files.sample(path)
    if files.suffix(path) == ".txt" and brat.matches(sample):
        # Whatever the text beside annotations is about: markup of another format, say.
        return "brat"
    return next((name for name, format in FORMATS.items() if format.matches(sample)), None)


def _is_aside(path: Path) -> bool:
    if is_documentation(path):
        # What somebody annotated is a document, whatever its name.
        notes = (path.with_name(files.stem(path) + suffix) for suffix in (".ann", ".ann.gz"))
        return not any(map(Path.exists, notes))
    return path.name.lower().endswith(".md") or path.name in OF_A_CONVERSION


def _as_paths(paths: PathLikes) -> list[Path]:
    is_one = isinstance(paths, str | PathLike | Mapping) or not isinstance(paths, Iterable)
    listed: Iterable[Any] = [paths] if is_one else paths  # pyright: ignore[reportAssignmentType]
    return [local(_as_path(path)) for path in listed]


def _as_path(path: Any) -> str:
    if isinstance(path, PathLike) or (isinstance(path, str) and path):
        return without_file_scheme(path)
    what = f"{' '.join(repr(path).split()):.60} is no path"
    hint = "give files or folders; a datasets.Dataset is read by rayner.read_dataset"
    raise CorpusError("paths", what, hint)


def _named(listings: Sequence[Listing]) -> str:
    return ", ".join(str(listing.path) for listing in listings) or "corpus"


def _seen(paths: Sequence[Path]) -> str:
    firsts = [f"{path} ({_first_line(path)[:40]!a})" for path in paths[:3]]
    return "; ".join(firsts) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _first_line(path: Path) -> str:
    return next((line for line in files.sample(path).lines if line.strip()), "")
