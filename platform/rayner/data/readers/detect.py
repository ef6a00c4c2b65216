"""Files in folders, and the format that they are in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from rayner.data.readers import files
from rayner.data.readers.formats import FORMATS
from rayner.errors import CorpusError
from rayner.files.fetching import local

PathLikes = str | PathLike[str] | Iterable[str | PathLike[str]]

LOOKED_AT = 5
"""How many files of one folder and suffix are opened to tell their format."""

_DOCUMENTATION = ("readme", "license", "licence", "source", "changelog", "rejects")
OF_A_CONVERSION = ("counts.json", "losses.jsonl")
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
_SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "ufet": (".jsonl", ".ndjson", ".json"),
    "figer": (".jsonl", ".ndjson", ".json"),
    "bioc": (".xml", ".bioc", ".json"),
    "brat": (".ann", ".txt"),
    "huggingface": (".arrow", ".parquet", ".pq"),
    "livingner": (".tsv", ".txt"),
    "text": (".txt", ".text"),
}


def find_files(paths: PathLikes) -> list[Path]:
    """The files of paths; folders are searched below, less hidden files and documentation (README, ...)."""
    found: dict[Path, None] = {}
    for path in _as_paths(paths):
        if not path.exists():
            raise CorpusError(str(path), "no such file or folder", "correct the path")
        if path.is_dir():
            inside = (
                p for p in sorted(path.rglob("*")) if not _is_aside(p.relative_to(path)) and p.is_file()
            )
            found.update(dict.fromkeys(inside))
        else:
            found[path] = None
    if not found:
        raise CorpusError(_named(paths), "no files", "name a file or a folder that holds some")
    return list(found)


def by_format(paths: PathLikes) -> dict[str, list[Path]]:
    """The paths by their format, in order; each path by itself must be of one.

    Raises:
        CorpusError: as `detect`.
    """
    named = _as_paths(paths)
    found, _ = _formats_in(named)
    if len(found) < 2 or len(named) == 1:
        return {detect(named): named}
    groups: dict[str, list[Path]] = {}
    for path in named:
        groups.setdefault(detect(path), []).append(path)
    return groups


def detect(paths: PathLikes) -> str:
    """The format of files or folders; where there is none, or more than one, an error names what was seen."""
    found, strange = _formats_in(paths)
    if len(found) == 1:
        return next(iter(found))
    hint = f"give --format: {', '.join(FORMATS)}"
    if not found:
        raise CorpusError(_named(paths), f"no known format; looked at {_seen(strange)}", hint)
    several = ", ".join(f"{name} ({path})" for name, path in found.items())
    raise CorpusError(_named(paths), f"several formats: {several}", f"name one of the folders, or {hint}")


def _formats_in(paths: PathLikes) -> tuple[dict[str, Path], list[Path]]:
    """A file of each format, and files of none."""
    found: dict[str, Path] = {}
    strange: list[Path] = []
    groups: dict[tuple[Path, str], list[Path]] = {}
    for path in find_files(paths):
        groups.setdefault((path.parent, files.suffix(path)), []).append(path)
    for group in groups.values():
        for path in group[:LOOKED_AT]:
            name = _format_of(path)
            if name is None:
                strange.append(path)
            else:
                found.setdefault(name, path)
    if strange and "text" in found:
        # Whatever they are, they are why the texts are there; reading the texts alone would hide it.
        del found["text"]
    if len(found) > 1:
        # Texts stand beside annotations; what has none becomes a reject of the format that has.
        found.pop("text", None)
    return found, strange


def files_for(paths: PathLikes, format: str) -> list[Path]:
    """The files that a format may be in: those that are named, and those of folders with its suffixes."""
    named = {path for path in _as_paths(paths) if not path.is_dir()}
    suffixes = _SUFFIXES.get(format, _TEXT_SUFFIXES)
    kept = [path for path in find_files(paths) if path in named or files.suffix(path) in suffixes]
    if not kept:
        raise CorpusError(
            _named(paths), f"no {format} files ({', '.join(filter(None, suffixes))})", "try --format auto"
        )
    return kept


def other_files(paths: PathLikes, format: str) -> list[Path]:
    """The files of folders that `files_for` leaves aside for their suffix."""
    return sorted(set(find_files(paths)) - set(files_for(paths, format)))


def _format_of(path: Path) -> str | None:
    sample = files.sample(path)
    return next((name for name, format in FORMATS.items() if format.matches(sample)), None)


def _is_aside(path: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    named = files.stem(path).lower() in _DOCUMENTATION or path.name in OF_A_CONVERSION
    return hidden or named or path.suffix.lower() == ".md"


def _as_paths(paths: PathLikes) -> list[Path]:
    return [local(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths)]


def _named(paths: PathLikes) -> str:
    return ", ".join(map(str, _as_paths(paths))) or "corpus"


def _seen(paths: Sequence[Path]) -> str:
    firsts = []
    for path in paths[:3]:
        line = next((line for line in files.sample(path).lines if line.strip()), "")
        firsts.append(f"{path} ({line[:40]!a})")
    return "; ".join(firsts) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
