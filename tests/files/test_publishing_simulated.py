"""Two writers of one place, in any order and with any faults of the storage: there is one whole state.

The storage is obstore's own in memory, with its conditional writes. Of its requests some fail, some succeed
without an answer, and some arrive later, when others have written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import obstore
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError
from obstore.store import MemoryStore

from rayner.errors import RaynerError
from rayner.files import objects, publishing, tries
from rayner.files.manifests import MANIFEST, OBJECTS, Entry, Manifest, decode
from rayner.files.publishing import Publication, TakenOverError

Fault = Literal["fails", "answer lost", "late"]
FAULTS = st.sampled_from(["fails", "answer lost", "late", None, None, None])


class Step(NamedTuple):
    """What a writer does, the faults of its writes in turn, and whether the other one writes in between."""

    writer: int
    does: Literal["open", "push"]
    manifest: tuple[Fault | None, ...] = ()
    upload: Fault | None = None
    meanwhile: bool = False


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(0, 1),
        st.sampled_from(["open", "push", "push"]),
        st.tuples(FAULTS, FAULTS),
        FAULTS,
        st.booleans(),
    ),
    min_size=2,
    max_size=12,
)


class Simulated:
    """The storage, and two writers each on a machine of its own: two commands, or of one owner, one after
    another."""

    def __init__(self, folder: Path, owner: str | None) -> None:
        self.store = MemoryStore()
        self.faults: list[Fault | None] = []
        self.upload_fault: Fault | None = None
        self.late: list[Callable[[], Any]] = []
        self.put = obstore.put
        self.writers: list[Publication] = []
        for number in range(2):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("RAYNER_LOCAL", str(folder / str(number)))
                self.writers.append(Publication("s3://tests/simulated", owner, number if owner else None))
        self.folder, self.number = folder, 0

    def puts(self, store: Any, path: str, file: Any, **options: Any) -> Any:
        if path == MANIFEST:
            fault = self.faults.pop(0) if self.faults else None
        else:
            fault, self.upload_fault = self.upload_fault, None
            file = Path(file).read_bytes()
        if fault == "fails":
            raise GenericError("503")
        if fault == "late":
            self.late.append(lambda: self.put(store, path, file, **options))
            raise GenericError("timed out")
        answer = self.put(store, path, file, **options)
        if fault == "answer lost":
            raise GenericError("the connection broke")
        return answer

    def objects_of(self, base: Any, entries: Mapping[str, Entry], passing: Path) -> dict[str, Path]:
        found = {}
        for name, entry in entries.items():
            data = bytes(obstore.get(self.store, entry.object).bytes())
            found[name] = self.folder / f"object-{hashlib.sha256(data).hexdigest()}"
            found[name].write_bytes(data)
        return found

    def arrive(self) -> None:
        """What was under way comes at last, if its condition still holds."""
        late, self.late = self.late, []
        for put in late:
            with suppress(AlreadyExistsError, PreconditionError):
                put()

    def manifest(self) -> Manifest | None:
        try:
            return decode(bytes(obstore.get(self.store, MANIFEST).bytes()), MANIFEST)
        except FileNotFoundError:
            return None

    def state(self) -> dict[str, str]:
        """What a reader sees; every file is there, and what its manifest says."""
        manifest = self.manifest()
        files = {}
        for name, entry in (manifest.files if manifest else {}).items():
            data = bytes(obstore.get(self.store, entry.object).bytes())
            assert (len(data), hashlib.sha256(data).hexdigest()) == (entry.size, entry.sha256)
            files[name] = data.decode()
        return files

    def change(self, writer: Publication) -> dict[str, str]:
        """Replace a file, and add another one; what is there then."""
        self.number += 1
        writer.folder.mkdir(parents=True, exist_ok=True)
        (writer.folder / "log").write_text(str(self.number))
        (writer.folder / f"of-{self.number}").write_text(f"{self.number}")
        return {path.name: path.read_text() for path in writer.folder.iterdir() if path.is_file()}


def begun(patch: pytest.MonkeyPatch, folder: Path, owner: str | None = None) -> Simulated:
    """The storage and its writers in the place of the real ones."""
    patch.setattr(objects, "store_at", lambda uri: None)
    simulated = Simulated(folder, owner)
    for writer in simulated.writers:
        writer._objects.store = simulated.store
    patch.setattr(obstore, "put", simulated.puts)
    patch.setattr(publishing, "place_of", lambda uri: None)
    patch.setattr(publishing, "objects_of", simulated.objects_of)
    patch.setattr(tries, "PAUSE", 0)
    patch.setattr(tries, "TRIES", 2)
    return simulated


def take(simulated: Simulated, step: Step, opened: list[bool]) -> None:
    """Do a step, and hold what must be true after it."""
    writer, other = simulated.writers[step.writer], simulated.writers[1 - step.writer]
    simulated.faults, simulated.upload_fault = list(step.manifest), step.upload
    if step.does == "push" and not opened[step.writer]:
        return
    before = simulated.state()
    if step.does == "open":
        make, left = writer._make_folder, [opened[1 - step.writer] and step.meanwhile]

        def fetching(files: Mapping[str, Entry]) -> None:
            make(files)
            if left.pop() if left else False:
                faults, simulated.faults = simulated.faults, []
                simulated.change(other)
                other.push()
                simulated.faults = faults

        writer._takes_over = True
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer, "_make_folder", fetching)
            try:
                writer.open()
            except TakenOverError:
                raise AssertionError("who begins later takes over") from None
            except RaynerError:
                opened[step.writer] = False
                return
        opened[:] = [number == step.writer for number in range(2)]
        here = {p.name: p.read_text() for p in writer.folder.iterdir() if p.is_file()}
        assert here == simulated.state()
        return
    meant = simulated.change(writer)
    try:
        writer.push()
        assert simulated.state() == meant
    except TakenOverError:
        raise AssertionError("nobody has taken it over") from None
    except RaynerError:
        # The state before, or this one.
        assert simulated.state() in (before, meant)


@settings(max_examples=150)
@example([Step(0, "open"), Step(1, "open", meanwhile=True)])
@example([Step(0, "open"), Step(0, "push", ("late", "late")), Step(1, "open")])
@given(STEPS)
def test_there_is_always_one_whole_state(steps: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as name:
        simulated = begun(patch, Path(name))
        opened = [False, False]
        for step in steps:
            take(simulated, step, opened)
            simulated.state()
            simulated.arrive()
            simulated.state()
        # What was taken over stops, and harms nothing; what is of nobody goes with the next that begins.
        simulated.faults, simulated.upload_fault = [], None
        last = simulated.writers[0]
        last._takes_over = True
        last.open()
        manifest = simulated.manifest()
        assert manifest is not None
        named = {entry.object for entry in manifest.files.values()}
        found = {one["path"] for part in obstore.list(simulated.store, prefix=OBJECTS) for one in part}
        assert found == named
        if opened[1]:
            simulated.change(simulated.writers[1])
            with pytest.raises(TakenOverError):
                simulated.writers[1].push()
            assert simulated.manifest() == manifest
            simulated.state()


@settings(max_examples=50)
@example([Step(0, "open", meanwhile=True)])
@example([Step(1, "open"), Step(0, "open")])
@given(STEPS)
def test_who_was_replaced_never_writes_again(steps: list[Step]) -> None:
    """Two first workers of one command, of which the second replaces the first, which may yet run."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as name:
        simulated = begun(patch, Path(name), "owner")
        attempt, opened = 0, set[int]()
        for step in steps:
            writer, other = simulated.writers[step.writer], simulated.writers[1 - step.writer]
            simulated.faults, simulated.upload_fault = list(step.manifest), step.upload
            make, left = writer._make_folder, [step.meanwhile]

            def fetching(files: Mapping[str, Entry], make=make, left=left, other=other) -> None:
                make(files)
                if left.pop() if left else False:
                    with suppress(RaynerError):
                        other.open()

            with pytest.MonkeyPatch.context() as inner, suppress(RaynerError):
                inner.setattr(writer, "_make_folder", fetching)
                if step.does == "open":
                    writer.open()
                    opened.add(step.writer)
                elif step.writer in opened:
                    simulated.change(writer)
                    writer.push()
            simulated.arrive()
            manifest = simulated.manifest()
            if manifest is not None:
                assert manifest.attempt >= attempt
                attempt = manifest.attempt
            simulated.state()
        simulated.faults, simulated.upload_fault = [], None
        first, second = simulated.writers
        second.open()
        with pytest.raises(TakenOverError):
            first.open()
        simulated.change(second)
        second.push()
        simulated.state()
