"""Several writers of one folder at a URI: the later one goes on, and nothing of it is removed."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import obstore
import pytest

from rayner.errors import InputError, StorageError
from rayner.files.fetching import local, names_in
from rayner.files.places import Place
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.working import kept_in_place, worked_on
from tests.files.folders_at_uris import FILES, another_machine, published, read, uri, write
from tests.object_storage import Fault, Storage


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


def test_a_manifest_that_is_written_while_it_is_looked_for_is_no_file(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Place.files

    def written_before(place: Place, recursive: bool = False) -> Any:
        monkeypatch.setattr(Place, "files", files)
        Publication(uri("meanwhile")).open()
        return files(place, recursive)

    monkeypatch.setattr(Place, "files", written_before)
    assert names_in(uri("meanwhile")) == set()
    assert Place.files is files


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


def test_only_of_another_process_it_is_told_that_it_stops(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    published("told")
    # As a sweep removes an earlier winner before it trains its own.
    Publication(uri("told")).amend(lambda name: True)
    Publication(uri("told")).open()
    assert "goes on after" not in caplog.text
    monkeypatch.setattr("rayner.files.publishing.this_process", lambda: "process 0 on another")
    # Though it has put nothing in place yet.
    Publication(uri("told")).open()
    assert "s3://tests/told: goes on after process" in caplog.text


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


def test_a_worker_that_is_replaced_while_it_begins_stops(storage: Storage) -> None:
    """Each is of the same owner: which one goes on, their numbers say."""
    driver = published("replaced")
    attempt = driver.attempt
    old, new, other = (Publication(driver.uri, driver.owner, attempt + number) for number in (1, 2, 1))
    write_manifest = old._write

    def slower(state: Any) -> None:
        new.open()
        write_manifest(state)

    old._write = slower
    with pytest.raises(TakenOverError, match=r"replaced: is written by the process that replaced this one"):
        old.open()
    with pytest.raises(TakenOverError):
        other.fetch()
    Publication(driver.uri, driver.owner, attempt + 2).fetch()
    write(new.folder, {"a.txt": "newer"})
    new.push()
    driver.open()
    assert (driver.folder / "a.txt").read_text() == "newer"
    driver.push()
    with pytest.raises(TakenOverError):
        new.open()


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


@pytest.mark.parametrize("heeds", [signal.default_int_handler, signal.SIG_IGN])
def test_who_is_taken_over_is_interrupted(storage: Storage, tmp_path: Path, heeds: Any) -> None:
    def work() -> None:
        with kept_in_place(Path(uri("sweep")), "sweeps", 0.05) as (folder, _):
            write(folder, FILES)
            another = Publication(uri("sweep"))
            another.folder = tmp_path / "other"
            another.open()
            while True:
                time.sleep(0.05)

    before = signal.signal(signal.SIGINT, heeds)
    try:
        with pytest.raises(TakenOverError, match="this one stops"):
            work()
    finally:
        signal.signal(signal.SIGINT, before)


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


def test_a_second_process_on_a_uri_is_told_of_the_uri(storage: Storage) -> None:
    out = Path(uri("second-process"))
    with (
        worked_on(out, "works in this folder"),
        pytest.raises(InputError, match=r"^s3://tests/second-process: another process \("),
        worked_on(out, "works in this folder"),
    ):
        pass
