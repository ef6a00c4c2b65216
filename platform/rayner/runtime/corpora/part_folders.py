"""What is made of the parts of a corpus: a folder each, put in place whole by the machine that makes it.

They lie in a hidden folder of the output, which all machines see, or at its URI: there no machine sees what
another one has on its disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rayner.errors import InputError, StorageError
from rayner.files.fetching import copy_some
from rayner.files.folders import flush_folder
from rayner.files.manifests import MANIFEST, PARTS, Entry
from rayner.files.objects import Objects
from rayner.files.publishing import Publication
from rayner.files.uris import uri_of
from rayner.files.whole import is_partial, link_or_copy, partial_name, whole_file

HIDDEN = ".parts"
_AT_ONCE = 8
_AGAIN = "run the same command again"
_OWNER = "parts"
"""All machines that make parts: they work for a driver that has used the storage."""


class Output:
    """The folder of a corpus that is put together of parts.

    Args:
        folder: on this machine.
        publication: what puts it in place at a URI, opened.

    Attributes:
        parts: the folder of the folders of parts, or its URI.
        known: the folder on this machine of what is known of parts: all of it, or at a URI what was fetched.
        earlier: the format of the documents that are there; None where that is not known, or there are none.
    """

    def __init__(self, folder: Path, publication: Publication | None = None) -> None:
        self.folder = folder
        self.earlier: str | None = None
        self.known = self.parts = folder / HIDDEN
        self._publication = publication
        if publication is not None:
            self.parts = Path(f"{publication.uri}/{PARTS}")
            self._objects = Objects(publication.uri, worked=True)
            self._fetched: dict[str, dict[str, Entry]] = {}
            self._before = {entry.object for entry in publication.elsewhere.values()}

    def finished_parts(self) -> set[str]:
        """The names of the folders of parts that are there."""
        if self._publication is None:
            return {path.name for path in self.parts.glob("*") if not is_partial(path.name)}
        found = (name.removeprefix(f"{PARTS}/").split("/") for name in self._objects.names(PARTS))
        return {path[0] for path in found if path[1:] == [MANIFEST]}

    def fetch(self, names: Iterable[str], wanted: Callable[[str], bool]) -> None:
        """Have some files of the folders of parts on this machine.

        Raises:
            TakenOverError: another process writes to the URI now.
            StorageError: a folder is gone or not whole there, or the storage cannot be used.
        """
        publication = self._publication
        if publication is None:
            return
        publication.check()
        there = {*self._objects.names(PARTS)}

        def fetch(name: str) -> None:
            below = f"{PARTS}/{name}/"
            place, manifest = f"{publication.uri}/{PARTS}/{name}", below + MANIFEST
            if manifest not in there:
                raise StorageError(place, "is gone", _AGAIN)
            try:
                found = self._fetched[name] = copy_some(place, self.known / name, wanted)
                gone = [entry.object for entry in found.values() if below + entry.object not in there]
            except InputError as error:
                gone = [error.what]
            if gone:
                # Put while another run started over, which removed what was there of it: it is made again.
                self._objects.remove([manifest])
                raise StorageError(place, f"is not whole ({gone[0]})", _AGAIN)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(fetch, names):
                pass

    def files(self, name: str) -> list[str]:
        """The names of the files of a folder that was fetched, in order."""
        if self._publication is None:
            return sorted(path.name for path in (self.parts / name).iterdir())
        return sorted(self._fetched[name])

    def place(self, part: str, file: str, name: str) -> None:
        """Give a file of a part's folder, which was fetched, its name in the output."""
        if self._publication is None:
            with whole_file(self.folder / name) as path:
                link_or_copy(self.parts / part / file, path)
            return
        entry = self._fetched[part][file]
        self._publication.elsewhere[name] = replace(entry, object=f"{PARTS}/{part}/{entry.object}")

    def names(self) -> set[str]:
        """What lies in the output."""
        return {path.name for path in self.folder.iterdir()}.union(self._elsewhere())

    def check_whole(self) -> None:
        """Find out whether at a URI anything is lost of what was made of parts.

        Raises:
            InputError: something is.
        """
        objects = {entry.object for entry in self._elsewhere().values()}
        if self._publication is not None and objects and (gone := objects - {*self._objects.names(PARTS)}):
            what = f"its manifest names an object that is gone ({self._publication.uri}/{min(gone)})"
            hint = "restore the object, start over if the command has --fresh, or name another place"
            raise InputError(self._publication.uri, what, hint)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files of the output."""
        for name in names:
            self._elsewhere().pop(name, None)
            (self.folder / name).unlink(missing_ok=True)

    def _elsewhere(self) -> dict[str, Entry]:
        return self._publication.elsewhere if self._publication is not None else {}

    def forget_parts(self) -> None:
        """Remove the folders of all parts, less what the output was made of before.

        Raises:
            TakenOverError: another process writes to the URI now.
        """
        shutil.rmtree(self.known, ignore_errors=True)
        if self._publication is not None:
            self._publication.check()
            self._objects.remove([name for name in self._objects.names(PARTS) if name not in self._before])

    def end(self) -> None:
        """Remove the folders of all parts, less what the output is made of: at a URI, once it is in place."""
        shutil.rmtree(self.known, ignore_errors=True)
        if self._publication is not None:
            self._publication.give_up(self._objects.names(PARTS))


def put_whole(folder: Path, write: Callable[[Path], None]) -> None:
    """Make a folder of what `write` puts into one, here or at a URI; of two tries the first one stays."""
    uri = uri_of(folder)
    if uri is not None:
        with TemporaryDirectory(prefix="rayner-part-") as made:
            write(Path(made))
            Publication(uri, _OWNER).put_first(Path(made))
        return
    made = folder.with_name(partial_name(folder.name))
    made.mkdir(parents=True)
    try:
        write(made)
        flush_folder(made)
        made.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def here(file: Path) -> Iterator[Path]:
    """A file of a part's folder on this machine, for as long as it is read."""
    uri = uri_of(file)
    if uri is None:
        yield file
        return
    folder, _, name = uri.rpartition("/")
    with TemporaryDirectory(prefix="rayner-part-") as passing:
        if name not in copy_some(folder, Path(passing), {name}.__contains__):
            raise StorageError(uri, "is gone", _AGAIN)
        yield Path(passing) / name
