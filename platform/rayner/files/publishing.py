"""Folders at URIs that are worked on here, and put in place there whole.

What changed is uploaded under names of its own; then a manifest that names it all takes the place of the one
before, if that is still the one that this process wrote or took over (a conditional write); then what is no
longer named is removed. So there is the old state or the new one, and of two processes one goes on.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from rayner.errors import InputError, RaynerError
from rayner.files.fetching import local_root, objects_of, storage_failure
from rayner.files.folders import is_left_over
from rayner.files.hashes import FileHashes
from rayner.files.locks import locked, this_process
from rayner.files.manifests import MANIFEST, OBJECTS, Entry, Manifest, decode, is_of_part, new_object
from rayner.files.objects import Objects, version_of
from rayner.files.places import place_of
from rayner.files.snapshots import is_aside, snapshot
from rayner.files.stores import SCHEMES
from rayner.files.tries import wait

_AT_ONCE = 8
OPENINGS = 10
"""How often a process takes a place over from one that writes meanwhile, before it gives up."""
SECONDS_TO_FETCH = 1800
"""How long a worker waits for another one on its machine that fetches the same folder."""

log = logging.getLogger(__name__)


class TakenOverError(InputError):
    """Another process writes to the place now; this one stops. `named` are the objects that it goes by."""

    named: frozenset[str] = frozenset()


class Publication:
    """A folder at a URI as one process writes it, and the folder on this machine that it works in.

    Args:
        owner: who may go on writing; by default this process alone, which takes the place over.
        attempt: the number of this process among those of the owner: it stops where a later one has written.
            By default it comes after all that have.

    Attributes:
        elsewhere: files of the folder whose objects other machines have put below `PARTS`: they are not
            fetched to be worked on, and what this holds is named by each write.
    """

    def __init__(self, uri: str, owner: str | None = None, attempt: int | None = None) -> None:
        scheme = uri.partition(":")[0]
        if scheme not in SCHEMES:
            what = f"{scheme}: has no conditional writes, which keep two processes apart"
            raise InputError(uri, what, f"name a folder, or a URI that begins with {', '.join(SCHEMES)}")
        self.uri = uri.rstrip("/")
        name = hashlib.sha256(self.uri.encode()).hexdigest()[:16]
        self.folder = local_root() / "work" / name / self.uri.rpartition("/")[2]
        self.owner = owner or secrets.token_hex(8)
        self.attempt = attempt or 0
        self._comes_last = attempt is None
        self._takes_over = owner is None
        self._objects = Objects(self.uri, worked=owner is not None)
        self._state: Manifest | None = None
        self._version: Mapping[str, str] = {}
        self.elsewhere: dict[str, Entry] = {}
        self._given_up: set[str] = set()
        self._late: set[str] = set()
        self._hashes = FileHashes()
        self._pushing = threading.Lock()
        self._lost: set[str] = set()

    def open(self, fresh: bool = False) -> None:
        """Make this the process that writes, and the folder here what is there.

        Args:
            fresh: whether the work starts over: a file whose object is gone is an empty one here then, which
                keeps its name, and no error.

        Raises:
            TakenOverError: another process took the place over.
            InputError, StorageError: the storage cannot be used.
        """
        for attempt in range(1, OPENINGS + 1):
            self._state, self._version = self._take(fresh)
            state = self._state
            files = state.files if state is not None else {}
            if self._comes_last and state is not None:
                self.attempt = state.attempt + 1
            # Listed before: what a writer uploads that takes over from this one later is not among it.
            left = self._unnamed(files)
            try:
                self._write(Manifest(secrets.token_hex(8), self.owner, this_process(), self.attempt, files))
                break
            except TakenOverError:
                # Another one wrote while this one fetched; whether it may go on is looked at again.
                if attempt == OPENINGS:
                    raise
        if state is not None and state.owner != self.owner and state.who != this_process():
            log.info("%s: goes on after %s; if that still runs, it stops", self.uri, state.who)
        self._takes_over = False
        self._objects.remove(left)

    def fetch(self) -> None:
        """Make the folder here what is there, without writing there.

        Raises:
            TakenOverError: another process took the place over.
            InputError, StorageError: the storage cannot be used.
        """
        takes_over, self._takes_over = self._takes_over, False
        self._take()
        self._takes_over = takes_over

    @property
    def written(self) -> str:
        """What tells the state that this process wrote from any other; empty before it wrote one."""
        return self._state.write if self._state is not None else ""

    def check(self) -> None:
        """Find out whether this process may still write.

        Raises:
            TakenOverError: another process took the place over.
            InputError, StorageError: the storage cannot be used.
        """
        state, _ = self._read()
        if state is None or self._state is None or state.write not in {self._state.write, *self._late}:
            raise self._taken_over(state or Manifest("", "", "one that is not known"))

    def shown(self, path: Path) -> str:
        """The URI of a path in the folder here."""
        below = path.resolve().relative_to(self.folder.resolve()).as_posix()
        return self.uri if below == "." else f"{self.uri}/{below}"

    def amend(self, unwanted: Callable[[str], bool], added: Mapping[str, Path] | None = None) -> None:
        """Take the place over, to remove files from it by their names and to add others; no file is fetched.

        Raises:
            TakenOverError: another process took the place over meanwhile, again and again.
            InputError, StorageError: the storage cannot be used.
        """
        for attempt in range(1, OPENINGS + 1):
            self._state, self._version = self._read()
            if self._state is None:
                return
            try:
                self._amend(self._state, unwanted, added or {})
                return
            except TakenOverError:
                # Who writes there now does not know yet that it is to stop.
                if attempt == OPENINGS:
                    raise

    def _amend(self, state: Manifest, unwanted: Callable[[str], bool], added: Mapping[str, Path]) -> None:
        write = secrets.token_hex(8)
        files = {name: entry for name, entry in state.files.items() if not unwanted(name)}
        for number, (name, path) in enumerate(added.items()):
            files[name] = Entry(new_object(write, number, path.name), *self._hashes.of(path))
        if files == state.files:
            return
        for name, path in added.items():
            self._objects.upload(path, files[name].object)
        self._write(Manifest(write, self.owner, this_process(), state.attempt + 1, files))
        gone = {entry.object for entry in state.files.values()} - {entry.object for entry in files.values()}
        self._objects.remove(sorted(gone))

    def push(self) -> None:
        """Put the folder as it is now in place.

        Raises:
            TakenOverError: another process took the place over.
            InputError, StorageError: the storage cannot be used; there is the state before, or this one.
        """
        with self._pushing, snapshot(self.folder) as folder:
            self._push(folder)

    def give_up(self, objects: Iterable[str]) -> None:
        """Remove objects with the next write, less those that it names."""
        self._given_up.update(objects)

    def put_first(self, folder: Path) -> None:
        """Put a complete folder in place for good, unless there is one already; of two, the first one stays.

        Raises:
            InputError, StorageError: the storage cannot be used.
        """
        self._state, self._version = self._read()
        if self._state is None:
            # What whoever was slower has left stays: it may be under way yet.
            with suppress(TakenOverError):
                self._push(folder)

    def _push(self, folder: Path) -> None:
        stored = self._state.files.values() if self._state is not None else ()
        own = (e for e in stored if e.object not in self._lost and not is_of_part(e.object))
        before = {entry.sha256: entry for entry in own}
        replaced = {entry.object for entry in stored}
        write = secrets.token_hex(8)
        files = {**self.elsewhere}
        uploads: list[tuple[Path, str]] = []
        for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
            size, digest = self._hashes.of(path)
            known = before.get(digest)
            if known is None:
                target = new_object(write, number, path.name)
                known = before[digest] = Entry(target, size, digest)
                uploads.append((path, target))
            files[path.relative_to(folder).as_posix()] = known
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(lambda one: self._objects.upload(*one), uploads))
            self._write(Manifest(write, self.owner, this_process(), self.attempt, files))
        except TakenOverError as error:
            # Whoever took over may go by a manifest of this process of which no answer came.
            self._objects.remove([target for _, target in uploads if target not in error.named])
            raise
        except RaynerError:
            # The manifest may be on its way yet.
            self._given_up.update(target for _, target in uploads)
            raise
        gone = (replaced | self._given_up) - {entry.object for entry in files.values()}
        self._given_up.clear()
        self._objects.remove(sorted(gone))

    def _take(self, fresh: bool = False) -> tuple[Manifest | None, Mapping[str, str]]:
        """Make the folder here what is there: one state of it, also while another process writes new ones."""
        seen = None
        while True:
            state, version = self._read()
            if state is not None and not self._may_follow(state):
                raise self._taken_over(state)
            files = state.files if state is not None else {}
            self.elsewhere = {name: entry for name, entry in files.items() if is_of_part(entry.object)}
            if fresh:
                self._lost = {e.object for e in files.values()}.difference(self._objects.names(OBJECTS))
            try:
                with locked(self.folder.parent / ".fetching.lock", "fetches it", SECONDS_TO_FETCH):
                    self._make_folder({n: e for n, e in files.items() if n not in self.elsewhere})
            except FileNotFoundError as error:
                if state is None or state.write == seen:
                    what = f"its manifest names an object that is gone ({error.filename})"
                    hint = "restore the object, start over if the command has --fresh, or name another place"
                    raise InputError(self.uri, what, hint) from None
                seen = state.write
            else:
                return state, version

    def _may_follow(self, state: Manifest) -> bool:
        is_earlier = self._comes_last or state.attempt <= self.attempt
        return self._takes_over or (state.owner == self.owner and is_earlier)

    def _make_folder(self, files: Mapping[str, Entry]) -> None:
        """What lies in the folder here that is not of this state, may be newer or damaged, and goes; so does
        what a killed process was about to put in the place of a part of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in [path for path in self.folder.rglob(".*") if is_left_over(path.name)]:
            shutil.rmtree(path, ignore_errors=True)
        wanted = dict(files)
        for path in [path for path in self.folder.rglob("*") if not path.is_dir()]:
            name = path.relative_to(self.folder).as_posix()
            if name in wanted and self._hashes.of(path) == (wanted[name].size, wanted[name].sha256):
                del wanted[name]
            elif not any(map(is_aside, path.relative_to(self.folder).parts)):
                path.unlink(missing_ok=True)
        # Objects have no folders: one that is left empty would be taken for something that lies there.
        for folder, _, _ in os.walk(self.folder, topdown=False):
            parts = Path(folder).relative_to(self.folder).parts
            if parts and not any(map(is_aside, parts)):
                with suppress(OSError):
                    os.rmdir(folder)
        passing = self.folder.parent / ".passing"
        for name in [name for name, entry in wanted.items() if entry.object in self._lost]:
            try:
                # This machine may have fetched it before.
                objects_of(place_of(self.uri), {name: wanted[name]}, passing)
            except FileNotFoundError:
                log.warning("%s: the object of %s is gone; the file is empty now", self.uri, name)
                del wanted[name]
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).touch()
        for name, kept in objects_of(place_of(self.uri), wanted, passing).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # A copy: what is worked on must not change what was fetched.
            shutil.copyfile(kept, path)
        shutil.rmtree(passing, ignore_errors=True)

    def _read(self) -> tuple[Manifest | None, Mapping[str, str]]:
        """What is written there, and its version for a conditional write."""
        try:
            data, about = self._objects.read(MANIFEST)
        except FileNotFoundError:
            return None, {}
        return decode(data, f"{self.uri}/{MANIFEST}"), version_of(about)

    def _write(self, state: Manifest) -> None:
        """Put a manifest in the place of the one that this process knows of."""
        import obstore

        for attempt in count(1):
            mode: Any = "create" if self._state is None else self._version
            try:
                self._version = version_of(
                    obstore.put(self._objects.store, MANIFEST, state.encode(), mode=mode)
                )
                break
            except Exception as error:
                failure = storage_failure(self.uri, error, "cannot be written to", self._objects.worked)
                # Without an answer it may be written all the same, now or later.
                self._late.add(state.write)
                now, version = self._read()
                if now is not None and now.write == state.write:
                    self._version = version
                    break
                if now is not None and now.write in self._late:
                    self._state, self._version = now, version
                elif now is not None and (self._state is None or now.write != self._state.write):
                    raise self._taken_over(now) from None
                wait(failure, attempt)
        self._state = state
        self._objects.worked = True
        self._late.clear()

    def _taken_over(self, state: Manifest) -> TakenOverError:
        other, hint = "another process", "stop one of the two; this one stops"
        if state.owner == self.owner:
            other, hint = "the process that replaced this one", "this one stops"
        error = TakenOverError(self.uri, f"is written by {other} ({state.who})", hint)
        error.named = frozenset(entry.object for entry in state.files.values())
        return error

    def _unnamed(self, files: Mapping[str, Entry]) -> list[str]:
        """What writers that were killed have left, and was not of a part."""
        named = {entry.object for entry in files.values()}
        return [path for path in self._objects.names(OBJECTS) if path not in named and not is_of_part(path)]
