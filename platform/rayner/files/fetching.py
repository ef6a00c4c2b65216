"""Reading from object storage: by manifest where there is one, into a folder of this machine.

What was fetched is kept below `RAYNER_LOCAL` under the hash of its content. The path that is returned ends
with the URI's own, so that a machine which lacks the file can tell where to fetch it from.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from pyarrow import fs

from rayner.errors import InputError, RaynerError, StorageError, first_line
from rayner.files.manifests import MANIFEST, OBJECTS, REFUSED, Entry, find_manifest, key_of
from rayner.files.places import Place, place_of
from rayner.files.tries import wait
from rayner.files.uris import uri_of
from rayner.files.whole import link_or_copy, partial_name, whole_file

LOCAL_VARIABLE = "RAYNER_LOCAL"
_AT_ONCE = 8
_CHUNK = 2**22
_PATHS = re.compile(r"\S*/\S*")

log = logging.getLogger(__name__)

T = TypeVar("T")


class GoneError(FileNotFoundError):
    """An object that a manifest names is not there: a newer state of the folder may have replaced it."""


class Found(NamedTuple):
    """A file, or the files of a folder: what their objects lie below, and the state that a manifest is of."""

    base: Place
    entries: dict[str, Entry]
    is_file: bool
    write: str | None = None


def local(path: str | os.PathLike[str]) -> Path:
    """The path itself; for a URI where its file or folder lies on this machine, fetched if it does not yet.

    Raises:
        InputError: nothing is there, it may not be read, or the URI is none of object storage.
        StorageError: the storage does not answer, or answers wrongly.
    """
    uri = uri_of(path)
    return Path(path) if uri is None else _fetch(uri)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a file or folder, here or at its URI.

    Raises:
        InputError: the URI cannot be read, or the path has a name that is too long for a file.
        StorageError: as `local`.
    """
    uri = uri_of(path)
    if uri is not None:
        return what_is_at(place_of(uri)) is not None
    try:
        return Path(path).exists()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise InputError(os.fspath(path), os.strerror(errno.ENAMETOOLONG), "correct the path") from None


def copy_some(
    uri: str, folder: Path, wanted: Callable[[str], bool], passing_in: Path | None = None
) -> dict[str, Entry]:
    """Have some files of the folder at a URI, by their names, in a folder here, as they are now; no copy is
    kept for others who read them, and none comes where nothing is. For who has used the storage before.
    Returns all that is there, by name.

    Args:
        passing_in: a folder with room for all of it meanwhile; the system's own if None.

    Raises:
        InputError, StorageError: as `local`.
    """

    def copy(place: Place, found: Found) -> dict[str, Entry]:
        entries = {name: entry for name, entry in found.entries.items() if wanted(name)}
        with TemporaryDirectory(dir=passing_in) as passing:
            for name, kept in objects_of(found.base, entries, Path(passing)).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                with whole_file(folder / name) as path:
                    shutil.copyfile(kept, path)
        return found.entries

    return _with_found(uri, copy, worked=True) or {}


def names_in(path: str | os.PathLike[str]) -> set[str]:
    """The names of what lies in a folder, here or at its URI, which is not fetched; none where nothing is.

    Raises:
        InputError: the URI cannot be read.
        StorageError: as `local`.
    """
    uri = uri_of(path)
    if uri is None:
        return {one.name for one in Path(path).iterdir()} if Path(path).is_dir() else set()
    found = what_is_at(place_of(uri))
    # Objects without a manifest are of a writer that was killed before its first one.
    return {name.partition("/")[0] for name in found.entries} - {OBJECTS} if found else set()


def local_root() -> Path:
    """Where on this machine's own disk lies what comes from, and goes to, object storage.

    Raises:
        InputError: RAYNER_LOCAL names a URI.
    """
    named = os.environ.get(LOCAL_VARIABLE)
    if named and (uri := uri_of(named)) is not None:
        raise InputError(f"{LOCAL_VARIABLE}={uri}", "is a URI", "name a folder of this machine's own disk")
    return Path(named).absolute() if named else Path.home() / ".cache" / "rayner"


def storage_failure(
    where: str, error: BaseException, doing: str = "cannot be read", worked: bool = False
) -> RaynerError:
    """The one line of an error that Arrow or obstore raised.

    Args:
        worked: whether this process, or the one that it works for, has used the storage before: then it has
            credentials, and who hands them out does not answer at the moment.
    """
    text = str(error)
    if "NoSuchBucket" in text or "NO_SUCH_BUCKET" in text:
        return InputError(where, "there is no such bucket", "correct the URI, or make the bucket")
    lacks_credentials = "169.254." in text or "redential" in _PATHS.sub("", text)
    if lacks_credentials and not worked:
        hint = "set AWS_ACCESS_KEY_ID and so on, or give the machine a role"
        return InputError(where, "no credentials were found for it", hint)
    if REFUSED.search(text):
        return InputError(where, "access is denied", "give this process the rights to it, or correct the URI")
    if isinstance(error, FileNotFoundError):
        return InputError(where, "no such file or folder", "correct the URI")
    line = first_line(error)
    hint = "when the storage works again, run the same command again"
    if lacks_credentials:
        hint = f"give this machine a role, or AWS_ACCESS_KEY_ID and so on, if it has none; {hint}"
    return StorageError(where, f"{doing} ({line[:200]})", hint)


def _fetch(uri: str) -> Path:
    fetched = _with_found(uri, _fetch_found)
    if fetched is None:
        raise storage_failure(uri, FileNotFoundError(_missing(place_of(uri))))
    return fetched


def _with_found(uri: str, do: Callable[[Place, Found], T], worked: bool = False) -> T | None:
    """What `do` returns for one state of what is at a URI; None where nothing is. `worked` as of
    `storage_failure`."""
    place = place_of(uri)
    seen = None
    while True:
        found = what_is_at(place, worked)
        if found is None:
            return None
        try:
            return do(place, found)
        except FileNotFoundError as error:
            # What a newer state of the folder has replaced is removed.
            if found.write is None or found.write == seen:
                what = f"its manifest names an object that is gone ({error.filename})"
                raise InputError(uri, what, "write it again, or restore the object") from None
            seen = found.write


def _missing(place: Place) -> str:
    bucket = place.at(place.path.strip("/").partition("/")[0])
    return "NoSuchBucket" if bucket.info().type == fs.FileType.NotFound else "no such file or folder"


def what_is_at(place: Place, worked: bool = False) -> Found | None:
    """What lies at a place, asked for again after faults that pass; raises as `local`."""
    return _repeated(lambda: _look(place), place, worked)


def _look(place: Place, again: bool = True) -> Found | None:
    info = place.info()
    if info.type == fs.FileType.File:
        folder = place.at(place.path.rpartition("/")[0])
        return Found(folder, {info.base_name: _plain(info.base_name, info, place)}, is_file=True)
    if (described := find_manifest(place)) is not None:
        base, manifest, rest = described
        entries = manifest.below(rest)
        # What is not of the folder may be somebody's own below it.
        if entries or not rest:
            return Found(base, entries, rest in manifest.files, manifest.write) if entries else None
    start = place.path.rstrip("/") + "/"
    files = {one.path.removeprefix(start): one for one in place.files(recursive=True)}
    if files.pop(MANIFEST, None) is not None and again:
        # It was written since it was looked for.
        return _look(place, again=False)
    _check_names(files, place)
    entries = {name: _plain(name, one, place) for name, one in files.items()}
    return Found(place, entries, is_file=False) if entries else None


def _check_names(names: Collection[str], place: Place) -> None:
    """Refuse objects that cannot be files of one folder.

    Raises:
        InputError: a name has a part that is none, or is that of a folder as well.
    """
    for name in names:
        parts = name.split("/")
        folders = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
        twice = next((folder for folder in folders if folder in names), None)
        if twice is not None or {"", ".", ".."} & set(parts):
            what = "the name of this object is no path" if twice is None else "objects lie below this object"
            shown = f"{place.shown.rstrip('/')}/{name if twice is None else twice}"
            raise InputError(shown, what, "rename it, or name files and folders beside it")


def _plain(name: str, info: fs.FileInfo, place: Place) -> Entry:
    """A file without a manifest is known by its place, size and time, and by its tag while it is new."""
    told = hashlib.sha256(f"{info.path} {info.size} {place.time_of(info)}".encode()).hexdigest()
    return Entry(name, info.size or 0, f"of {told}{place.tag_of_new(info)}")


def _fetch_found(place: Place, found: Found) -> Path:
    scheme, _, rest = place.shown.rstrip("/").partition("://")
    target = local_root() / "fetched" / key_of(found.entries) / f"{scheme}:" / rest
    if not target.exists():
        kept = objects_of(found.base, found.entries)
        if found.is_file:
            # As the URI has its name, which may be encoded.
            (own,) = kept.values()
            _assemble(target.parent, {target.name: own})
        else:
            _assemble(target, kept)
    return target


def objects_of(base: Place, entries: Mapping[str, Entry], passing: Path | None = None) -> dict[str, Path]:
    """Where the content of each file lies on this machine, fetched if it does not yet.

    Args:
        passing: the folder for what is fetched; by default it is kept for whoever reads it next.

    Raises:
        FileNotFoundError: an object is gone.
        InputError, StorageError: as `local`.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        kept = list(pool.map(lambda entry: _object(base, entry, passing), entries.values()))
    return dict(zip(entries, kept, strict=True))


def _assemble(folder: Path, files: Mapping[str, Path]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(partial_name(folder.name))
    try:
        for name, kept in files.items():
            path = partial / name
            path.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(kept, path)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.exists():
                raise
            # Another process was faster, with the same files; what has gone from there since comes back.
            for name, kept in files.items():
                with suppress(FileExistsError):
                    link_or_copy(kept, folder / name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _object(base: Place, entry: Entry, passing: Path | None) -> Path:
    """Where the content of a file lies on this machine."""
    name = entry.sha256.removeprefix("of ")
    places = [local_root() / "objects" / name[:2] / name]
    if passing is not None:
        places.append(passing / name)
    for path in places:
        if path.exists() and path.stat().st_size == entry.size:
            return path
    source, path = base.below(entry.object), places[-1]

    def download() -> None:
        try:
            _download(source, entry, path)
        except FileNotFoundError:
            raise GoneError(2, "is gone", source.shown) from None

    # Whoever works on it has just read its manifest.
    _repeated(download, source, worked=passing is not None)
    return path


def _repeated(do: Callable[[], T], place: Place, worked: bool = False) -> T:
    """What `do` returns, after faults of the storage that pass; `worked` as of `storage_failure`.

    Raises:
        GoneError, InputError, StorageError: as `do` raised it, or as `local`.
    """
    for attempt in count(1):
        try:
            return do()
        except Exception as error:
            if isinstance(error, GoneError | RaynerError) or not place.is_fault(error):
                raise
            wait(storage_failure(place.shown, error, worked=worked), attempt)
    raise AssertionError


def _download(source: Place, entry: Entry, path: Path) -> None:
    digest, size = hashlib.sha256(), 0
    with whole_file(path) as partial:
        with (
            source.filesystem.open_input_stream(source.path, compression=None) as stream,
            partial.open("wb") as file,
        ):
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        is_right = entry.sha256.startswith("of ") or digest.hexdigest() == entry.sha256
        if size != entry.size or not is_right:
            raise OSError(f"{size} bytes came that are not the {entry.size} of its manifest")
        # The same on each machine, because what was seen of a file is kept by its time.
        stamp = int(entry.sha256.removeprefix("of ")[:7], 16)
        os.utime(partial, (stamp, stamp))
        partial.chmod(0o444)
