"""Folders at URIs over HTTP: whole or not at all, one writer, and one clear line for what is wrong."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import obstore
import pytest

from rayner.errors import InputError, StorageError
from rayner.files import fetching
from rayner.files.fetching import is_there, local
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.working import kept_in_place, shown_at, worked_on
from tests.files.folders_at_uris import FILES, published, read, uri, write
from tests.object_storage import Fault, Storage


def another_machine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("RAYNER_LOCAL", str(folder))


def test_what_is_put_in_place_is_read_on_another_machine(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published("whole")
    another_machine(monkeypatch, tmp_path / "other")
    assert read(local(uri("whole"))) == FILES
    assert read(local(Path(uri("whole")) / "last")) == {
        k[5:]: v for k, v in FILES.items() if k[:5] == "last/"
    }
    # As pathlib leaves it when it makes a path absolute.
    assert local(Path(uri("whole/a.txt")).absolute()).read_text() == "one"
    storage.seen.clear()
    assert read(local(uri("whole"))) == FILES
    assert not [path for method, path in storage.seen if "_objects" in path]
    assert is_there(uri("whole/last"))
    assert not is_there(uri("whole/first"))


def test_a_fetched_path_that_another_machine_lacks_is_fetched_there(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published("elsewhere")
    path = local(uri("elsewhere/a.txt"))
    assert path.read_text() == "one"
    stamp = path.stat().st_mtime_ns
    for kept in (path, *(tmp_path / "machine" / "objects").rglob("*")):
        if kept.is_file():
            kept.unlink()
    (path.parent / "another").touch()
    again = local(path)
    assert again == path
    assert again.stat().st_mtime_ns == stamp


def test_only_what_changed_is_uploaded_and_what_it_replaced_is_removed(storage: Storage) -> None:
    publication = published("changes")
    before = storage.objects("changes/")
    assert len(before) == len(FILES) + 1
    write(publication.folder, {"a.txt": "another"})
    (publication.folder / "empty").unlink()
    storage.seen.clear()
    publication.push()
    uploads = [path for method, path in storage.seen if method == "PUT" and "_objects" in path]
    assert len(uploads) == 1
    assert len(storage.objects("changes/")) == len(before) - 1
    assert read(local(uri("changes"))) == {
        **{k: v for k, v in FILES.items() if k != "empty"},
        "a.txt": "another",
    }


def test_a_manifest_that_cannot_be_written_leaves_what_was_there(storage: Storage) -> None:
    publication = published("kept")
    write(publication.folder, {"a.txt": "another"})
    storage.fault = lambda method, path: "503" if (method, "_manifest" in path) == ("PUT", True) else None
    with pytest.raises(StorageError, match=r"s3://tests/kept: cannot be written to .*503"):
        publication.push()
    storage.works()
    assert read(local(uri("kept"))) == FILES
    publication.push()
    assert read(local(uri("kept")))["a.txt"] == "another"


@pytest.mark.parametrize("fault", ["503", "broken", "slow"])
def test_passing_faults_are_waited_for(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    publication = Publication(uri(f"fault-{fault}"))
    failed = storage.fails(fault, 2)
    publication.open()
    assert len(failed) == 2
    write(publication.folder, FILES)
    failed = storage.fails(fault, 3, "PUT")
    publication.push()
    assert len(failed) == 3
    another_machine(monkeypatch, tmp_path / "other")
    failed = storage.fails(fault, 3, "GET")
    assert read(local(publication.uri)) == FILES
    assert len(failed) == 3


def test_a_lost_answer_to_the_manifest_is_no_other_writer(storage: Storage) -> None:
    publication = published("lost")
    write(publication.folder, {"a.txt": "another"})
    failed = storage.fails("answer lost", 1, "PUT", "_manifest")
    publication.push()
    assert failed
    write(publication.folder, {"a.txt": "a third"})
    publication.push()
    assert local(uri("lost/a.txt")).read_text() == "a third"


def test_a_manifest_that_arrives_late_is_no_other_writer(storage: Storage) -> None:
    """It was written, no answer came, and then nothing could be read for a while."""
    publication = published("late")
    write(publication.folder, {"a.txt": "another"})
    lost: list[str] = []

    def fault(method: str, path: str) -> Fault | None:
        if method == "PUT" and "_manifest" in path and not lost:
            lost.append(path)
            return "answer lost"
        return "503" if method in ("GET", "PUT") and lost else None

    storage.fault = fault
    with pytest.raises(StorageError):
        publication.push()
    storage.works()
    assert local(uri("late/a.txt")).read_text() == "another"
    publication.check()
    write(publication.folder, {"a.txt": "a third"})
    publication.push()
    assert local(uri("late/a.txt")).read_text() == "a third"
    assert len(storage.objects("late/_objects/")) == len(FILES)


def test_who_is_taken_over_leaves_what_the_other_goes_by(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins after a manifest was written, and before its writer learns of it."""
    first, seconds = published("answer"), list[Publication]()
    read_manifest = first._read

    def later() -> Any:
        if not seconds:
            another_machine(monkeypatch, tmp_path / "second")
            seconds.append(Publication(first.uri))
            seconds[0].open()
        return read_manifest()

    monkeypatch.setattr(first, "_read", later)
    write(first.folder, {"a.txt": "of the first"})
    storage.fails("answer lost", 1, "PUT", "_manifest")
    with pytest.raises(TakenOverError):
        first.push()
    write(seconds[0].folder, {"b.txt": "of the second"})
    seconds[0].push()
    another_machine(monkeypatch, tmp_path / "third")
    assert read(local(first.uri)) == {**FILES, "a.txt": "of the first", "b.txt": "of the second"}


def test_a_state_that_is_replaced_while_it_is_fetched_is_fetched_anew(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = published("meanwhile")
    another_machine(monkeypatch, tmp_path / "second")
    second = Publication(first.uri)
    make, pushed = second._make_folder, []

    def slower(files: Any) -> None:
        if not pushed:
            pushed.append(True)
            write(first.folder, {"a.txt": "newer"})
            first.push()
        make(files)

    monkeypatch.setattr(second, "_make_folder", slower)
    second.open()
    assert read(second.folder) == {**FILES, "a.txt": "newer"}
    second.push()


def test_of_two_writers_the_later_one_goes_on(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = published("two")
    another_machine(monkeypatch, tmp_path / "other")
    second = Publication(uri("two"))
    second.open()
    assert read(second.folder) == FILES
    write(first.folder, {"a.txt": "of the first"})
    with pytest.raises(
        TakenOverError, match=r"s3://tests/two: is written by another process \(process \d+ on"
    ):
        first.push()
    write(second.folder, {"a.txt": "of the second"})
    second.push()
    assert local(uri("two/a.txt")).read_text() == "of the second"
    assert len(storage.objects("two/")) == len(FILES) + 1
    with pytest.raises(TakenOverError):
        Publication(uri("two"), first.owner).open()


def test_of_two_that_begin_at_once_one_stops(storage: Storage) -> None:
    first, second = Publication(uri("race")), Publication(uri("race"))
    write_manifest, met = first._write, []

    def slower(state) -> None:
        second.open()
        met.append(second)
        write_manifest(state)

    first._write = slower
    with pytest.raises(TakenOverError):
        first.open()
    assert met
    second.push()


def test_a_worker_that_was_replaced_stops(storage: Storage) -> None:
    driver = published("workers")
    old, new = (Publication(driver.uri, driver.owner) for _ in range(2))
    old.open()
    new.open()
    write(new.folder, {"a.txt": "newer"})
    new.push()
    with pytest.raises(TakenOverError):
        old.push()
    driver.open()
    assert (driver.folder / "a.txt").read_text() == "newer"


def test_what_a_killed_writer_uploaded_goes_and_what_a_later_one_uploads_stays(storage: Storage) -> None:
    first = published("garbage")
    obstore.put(storage.store(), "garbage/_objects/0123/00000-left", b"left")
    second = Publication(first.uri)
    second.open()
    assert len(storage.objects("garbage/_objects/")) == len(FILES)
    # As the second writer uploads before its manifest, while the first one ends its push.
    obstore.put(storage.store(), "garbage/_objects/4567/00000-new", b"new")
    with pytest.raises(TakenOverError):
        first.push()
    write(second.folder, {"a.txt": "another"})
    second.push()
    assert "garbage/_objects/4567/00000-new" in storage.objects("garbage/")


def test_what_a_push_that_failed_uploaded_goes_with_the_next(storage: Storage) -> None:
    publication = published("failed")
    write(publication.folder, {"a.txt": "another"})
    storage.fault = lambda method, path: "503" if (method, "_manifest" in path) == ("PUT", True) else None
    with pytest.raises(StorageError):
        publication.push()
    storage.works()
    assert len(storage.objects("failed/_objects/")) == len(FILES) + 1
    publication.push()
    assert len(storage.objects("failed/_objects/")) == len(FILES)
    assert local(uri("failed/a.txt")).read_text() == "another"


def test_files_of_this_machine_stay(storage: Storage) -> None:
    publication = published("local")
    aside = {"ray/launch/x": "Ray's", ".lock": "process 1", ".examples/key/x": "rows"}
    write(publication.folder, aside)
    publication.push()
    Publication(publication.uri, publication.owner).open()
    assert read(publication.folder) == {**FILES, **aside}
    assert read(local(publication.uri)) == FILES


def test_what_was_not_put_in_place_is_not_gone_on_with(storage: Storage) -> None:
    publication = published("ahead")
    write(publication.folder, {"a.txt": "not uploaded", "more": "neither"})
    again = Publication(publication.uri)
    again.open()
    assert read(again.folder) == FILES


def test_a_folder_is_put_in_place_when_the_work_is_done(storage: Storage) -> None:
    out = Path(uri("work"))

    def fail() -> None:
        with worked_on(out, "works") as (folder, _):
            write(folder, {"half": "done"})
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fail()
    with worked_on(out, "works") as (folder, publication):
        assert publication is not None
        assert read(folder) == {}
        write(folder, FILES)
    assert read(local(uri("work"))) == FILES
    assert shown_at(out, folder, {"a": [f"{folder}/b", 1]}) == {"a": [uri("work/b"), 1]}


@pytest.mark.parametrize("heeds", [signal.default_int_handler, signal.SIG_IGN])
def test_who_is_taken_over_is_interrupted(storage: Storage, tmp_path: Path, heeds: Any) -> None:
    def work() -> None:
        with kept_in_place(Path(uri("sweep")), "sweeps", 0.05) as folder:
            write(folder, FILES)
            another = Publication(uri("sweep"))
            another.folder = tmp_path / "other"
            another.open()
            while True:
                fetching.time.sleep(0.05)

    before = signal.signal(signal.SIGINT, heeds)
    try:
        with pytest.raises(TakenOverError, match="this one stops"):
            work()
    finally:
        signal.signal(signal.SIGINT, before)


def test_folders_without_a_manifest_are_read_as_they_lie(storage: Storage) -> None:
    store = storage.store()
    for name, text in {"x.txt": "one", "below/y.txt": "two"}.items():
        obstore.put(store, f"plain/{name}", text.encode())
    assert read(local(uri("plain"))) == {"x.txt": "one", "below/y.txt": "two"}
    assert local(uri("plain/x.txt")).read_text() == "one"
    obstore.put(store, "plain/x.txt", b"changed and longer")
    assert local(uri("plain/x.txt")).read_text() == "changed and longer"


def test_what_is_wrong_with_the_folder_here_is_told_of_the_uri(storage: Storage) -> None:
    with (
        pytest.raises(InputError, match=r"^s3://tests/named/x: is wrong; look at s3://tests/named$"),
        worked_on(Path(uri("named")), "works") as (folder, _),
    ):
        raise InputError(str(folder / "x"), "is wrong", f"look at {folder}")


def test_who_is_taken_over_at_the_very_end_is_told_so(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work is done when the thread beside it finds out."""
    done, begun = threading.Event(), threading.Event()

    def push(self: Publication) -> None:
        begun.set()
        done.wait()
        raise TakenOverError(self.uri, "is written by another process", "stop one of the two")

    def work() -> None:
        with kept_in_place(Path(uri("end")), "works", seconds=0.01):
            begun.wait()
            done.set()

    monkeypatch.setattr(Publication, "push", push)
    with pytest.raises(TakenOverError):
        work()


def lose(storage: Storage, name: str, ending: str) -> None:
    """Remove one object of a folder."""
    [gone] = [key for key in storage.objects(f"{name}/_objects/") if key.endswith(ending)]
    obstore.delete(storage.store(), [gone])


def test_what_starts_over_begins_without_what_is_lost(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published("lost-object")
    lose(storage, "lost-object", "a.txt")
    another_machine(monkeypatch, tmp_path / "other")
    out = Path(uri("lost-object"))
    with pytest.raises(InputError, match="start over with --fresh"), worked_on(out, "works"):
        pass
    with worked_on(out, "works", fresh=True) as (folder, _):
        assert read(folder) == {**FILES, "a.txt": ""}
        # The same content as what is lost, which is uploaded again.
        write(folder, {"a.txt": FILES["a.txt"]})
    another_machine(monkeypatch, tmp_path / "third")
    assert read(local(out)) == FILES


def test_a_lost_object_that_this_machine_has_is_uploaded_again(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published("lost-there")
    lose(storage, "lost-there", "a.txt")
    out = Path(uri("lost-there"))
    with worked_on(out, "works", fresh=True):
        pass
    lose(storage, "lost-there", "bin")
    with kept_in_place(out, "works", fresh=True) as folder:
        assert read(folder) == FILES


def test_what_is_appended_to_while_it_is_uploaded_is_read_on_another_machine(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = published("appended", {"answers.jsonl": "x" * 2**24})
    answers, hash_ = publication.folder / "answers.jsonl", publication._hash
    answers.write_text("y" * 2**24)

    def hashed(path: Path) -> tuple[int, str]:
        found = hash_(path)
        with answers.open("a") as file:
            file.write("more")
        return found

    monkeypatch.setattr(publication, "_hash", hashed)
    publication.push()
    another_machine(monkeypatch, tmp_path / "other")
    there = Publication(publication.uri)
    there.open()
    assert (there.folder / "answers.jsonl").read_text() == "y" * 2**24


def test_folders_that_are_empty_here_go(storage: Storage) -> None:
    publication = published("empty-folders")
    aside = publication.folder / "ray" / "launch"
    for folder in (publication.folder / "a/b/c", aside):
        folder.mkdir(parents=True)
    Publication(publication.uri, publication.owner).open()
    assert not (publication.folder / "a").exists()
    assert aside.is_dir()


def test_a_second_process_on_a_uri_is_told_of_the_uri(storage: Storage) -> None:
    out = Path(uri("second-process"))
    with (
        worked_on(out, "works in this folder"),
        pytest.raises(InputError, match=r"^s3://tests/second-process: another process \("),
        worked_on(out, "works in this folder"),
    ):
        pass
