"""An index on disk: a folder of versions, each complete from the moment that it has its name.

`000001/`, `000002/` ... are versions, of which the highest counts. A writer fills a hidden folder and renames
it; readers that have an older version open keep it. Writers exclude one another by a lock that goes with the
process that holds it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rayner.data.schema import Entity
from rayner.errors import IndexFolderError
from rayner.files.fetching import is_there, local, names_in
from rayner.files.folders import is_left_over, remove_folder, replace_folder
from rayner.files.locks import LOCK, locked
from rayner.files.publishing import Publication
from rayner.files.uris import uri_of
from rayner.files.working import check_no_file
from rayner.retrieval.build import Encode, with_entities, without_entities
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.faiss_library import check_faiss
from rayner.retrieval.index_files import ENTITIES, MANIFEST, read_files, read_manifest, write_files

DOING = "writes this index"
KEPT = 2
"""Versions that stay: the last one, and the one before it for readers that are just opening it."""
_VERSION = re.compile(r"\d{6,}")
_ATTEMPTS = 5


def write_index(index: EntityIndex, folder: Path, origin: Mapping[str, Any] | None = None) -> int:
    """Write an index as the next version of a folder, which is made if it is missing; the version's number.

    Args:
        origin: what made the vectors; that of the index if it is None.

    Raises:
        IndexFolderError: the folder holds something else.
        InputError: another process writes the index, or it cannot be written.
    """
    return build_into(folder, lambda: index, origin).version


def build_into(
    folder: Path, build: Callable[[], EntityIndex], origin: Mapping[str, Any] | None = None
) -> EntityIndex:
    """`write_index` of what `build` returns, as nobody else writes meanwhile; the index as it is now."""
    check_target(folder)
    with locked(folder / LOCK, DOING):
        index = build()
        index.version = _write(index, folder, index.origin if origin is None else origin)
        return index


def check_target(folder: Path) -> None:
    """Refuse a folder, or a URI, where an index would lie beside other things.

    Raises:
        IndexFolderError: it is a file, a folder that holds no index but is not empty, or not to be written.
        InputError, StorageError: a URI that cannot be written to, or at which a file lies.
    """
    if (uri := uri_of(folder)) is not None:
        # It asks for nothing, and refuses what has no conditional writes.
        Publication(uri)
        check_no_file(uri)
        names = names_in(folder)
        if names and not any(_is_version_at_uri(folder, name) for name in names):
            what = f"holds {min(names)!r} and no index"
            raise IndexFolderError(uri, what, "name another folder, or an empty one")
        return
    if is_there(folder) and not folder.is_dir():
        raise IndexFolderError(str(folder), "is a file", "name a folder")
    if folder.is_dir() and not _versions(folder):
        others = [path.name for path in folder.iterdir() if path.name != LOCK and not is_left_over(path.name)]
        if others:
            what = f"holds {others[0]!r} and no index"
            raise IndexFolderError(str(folder), what, "name another folder, or an empty one")
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        what = "cannot be written" if above.is_dir() else "is a file"
        if above != folder:
            what = f"{above} {what}"
        raise IndexFolderError(str(folder), what, "name a folder that can be written")


def open_index(folder: Path) -> EntityIndex:
    """The last version of an index, memory-mapped.

    Raises:
        IndexFolderError: no index, or a file of it that is missing, cut short or changed.
        InputError: two builds of FAISS are installed.
    """
    check_faiss()
    return _last(folder, lambda path: read_files(path, int(path.name)))


def is_version(name: str) -> bool:
    """Whether a folder of this name is a version of an index."""
    return _VERSION.fullmatch(name) is not None


def describe_index(folder: Path) -> dict[str, Any]:
    """What the manifest of the last version says, with `version`; no other file is read.

    Raises:
        IndexFolderError: no index, or a manifest that cannot be read.
    """
    return _last(folder, lambda path: {"version": int(path.name), **read_manifest(path)}, MANIFEST)


def last_version(folder: Path) -> Path:
    """The folder of an index's last version.

    Raises:
        IndexFolderError: no index.
    """
    return _last(folder, lambda path: path)


def version_of_index(folder: Path) -> str:
    """The number of an index's last version, and a hash of its manifest, which has those of its files.

    Raises:
        IndexFolderError: as `describe_index`.
    """
    described = describe_index(folder)
    digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()
    return f"{described['version']}-{digest[:12]}"


def add_entities(
    folder: Path,
    entities: Sequence[Entity],
    encode: Encode,
    check: Callable[[EntityIndex], None] = lambda index: None,
) -> EntityIndex:
    """Add entities, of whose names alone vectors are made; the index as it is now.

    Args:
        check: raises where the index, which nobody else writes now, is none to add to.

    Raises:
        KnowledgeBaseError: an id that is in the index already, or entities that cannot be in one.
        IndexFolderError: as `open_index`.
        InputError: another process writes the index, or it cannot be written.
    """

    def change(index: EntityIndex) -> EntityIndex:
        check(index)
        return with_entities(index, entities, encode)

    return _change(folder, change)


def remove_entities(folder: Path, entity_ids: Collection[str]) -> EntityIndex:
    """Remove entities; the index as it is now.

    Raises:
        KnowledgeBaseError: an id that is not in the index, or nothing would be left.
        IndexFolderError: as `open_index`.
        InputError: another process writes the index, or it cannot be written.
    """
    return _change(folder, lambda index: without_entities(index, entity_ids))


def _change(folder: Path, change: Callable[[EntityIndex], EntityIndex]) -> EntityIndex:
    _last(folder, lambda path: path)
    with locked(folder / LOCK, DOING):
        changed = change(open_index(folder))
        changed.version = _write(changed, folder, changed.origin)
        return changed


def _last(folder: Path, read: Callable[[Path], Any], file: str = "") -> Any:
    """What `read` returns of the last version; at a URI it is all that is fetched, or this file of it."""
    uri = uri_of(folder)
    for attempt in range(_ATTEMPTS):
        versions = _versions(folder) if uri is None else _versions_at_uri(folder, file)
        if not versions:
            what = "holds no index" if folder.is_dir() or names_in(folder) else "no such folder"
            raise IndexFolderError(
                uri or str(folder), what, "name the folder that `rayner index build` wrote"
            )
        try:
            return read(versions[-1])
        except FileNotFoundError:
            # Two writers in succession have taken it away; there is a newer one.
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _versions_at_uri(folder: Path, file: str) -> list[Path]:
    """The last version alone, fetched."""
    versions = (name for name in names_in(folder) if _is_version_at_uri(folder, name))
    last = max(versions, key=int, default=None)
    if last is None:
        return []
    # Where the file is missing, who reads the version says so.
    one = file if file in names_in(folder / last) else ""
    path = local(folder / last / one)
    return [path.parent if one else path]


def _is_version_at_uri(folder: Path, name: str) -> bool:
    return bool(_VERSION.fullmatch(name) and {MANIFEST, ENTITIES} & names_in(folder / name))


def _versions(folder: Path) -> list[Path]:
    if not (is_there(folder) and folder.is_dir()):
        return []
    return sorted(filter(_is_version, _numbered(folder)), key=_number)


def _is_version(path: Path) -> bool:
    """Whether a folder is a version, perhaps a damaged one: a user's folders may be named by dates."""
    return (path / MANIFEST).exists() or (path / ENTITIES).exists()


def _numbered(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _VERSION.fullmatch(path.name)]


def _number(path: Path) -> int:
    return int(path.name)


def _write(index: EntityIndex, folder: Path, origin: Mapping[str, Any]) -> int:
    versions = _versions(folder)
    number = 1 + max(map(_number, _numbered(folder)), default=0)
    replace_folder(folder / f"{number:06d}", lambda partial: write_files(index, partial, origin))
    for old in versions[: 1 - KEPT]:
        remove_folder(old)
    for left in folder.iterdir():
        if is_left_over(left.name) and _VERSION.fullmatch(left.name[1:].partition(".")[0]):
            shutil.rmtree(left, ignore_errors=True)
    return number
