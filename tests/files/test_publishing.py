"""Folders at URIs over HTTP: whole or not at all, one writer, and one clear line for what is wrong."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import boto3
import obstore
import pytest

from rayner.errors import InputError, StorageError
from rayner.files.fetching import is_there, local
from rayner.files.publishing import Publication
from rayner.files.uris import uri_of
from rayner.files.working import file_at, kept_in_place, shown_at, worked_on
from tests.files.folders_at_uris import FILES, another_machine, published, read, uri, write
from tests.object_storage import BUCKET, Fault, Storage


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


def test_files_of_this_machine_stay(storage: Storage) -> None:
    publication = published("local")
    aside = {"ray/launch/x": "Ray's", ".lock": "process 1", ".examples/key/x": "rows"}
    write(publication.folder, aside)
    publication.push()
    Publication(publication.uri, publication.owner).open()
    assert read(publication.folder) == {**FILES, **aside}
    assert read(local(publication.uri)) == FILES


def test_what_is_fetched_to_be_worked_on_has_no_other_copy_here(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each restart of a training on another machine fetches its state, which no other one can use."""
    publication = published("no-copies")
    another_machine(monkeypatch, tmp_path / "other")
    there = Publication(publication.uri)
    there.open()
    found = [path for path in (tmp_path / "other").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert sorted(found) == sorted(there.folder / name for name in FILES)
    # What has been read here is there for good, and not fetched again.
    another_machine(monkeypatch, tmp_path / "third")
    assert read(local(publication.uri)) == FILES
    storage.seen.clear()
    again = Publication(publication.uri)
    again.open()
    assert read(again.folder) == FILES
    assert not [path for method, path in storage.seen if method == "GET" and "_objects/" in path]
    assert len([path for path in (tmp_path / "third/objects").rglob("*") if path.is_file()]) == len(FILES)


def test_what_was_not_put_in_place_is_not_gone_on_with(storage: Storage) -> None:
    publication = published("ahead")
    write(publication.folder, {"a.txt": "not uploaded", "more": "neither"})
    again = Publication(publication.uri)
    again.open()
    assert read(again.folder) == FILES


@pytest.mark.parametrize("stage", ["new", "old", "partial"])
def test_what_a_killed_process_was_about_to_put_in_place_here_goes(storage: Storage, stage: str) -> None:
    publication = published(f"killed_{stage}")
    left = {f".last.{stage}/state": "of another run", f"trials/one/.last.{stage}/state": "too"}
    write(publication.folder, left)
    Publication(publication.uri).open()
    assert read(publication.folder) == FILES


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


def test_what_was_done_when_ctrl_c_came_is_put_in_place(storage: Storage) -> None:
    def work() -> None:
        with kept_in_place(Path(uri("interrupted")), "works", seconds=999) as (folder, _):
            write(folder, FILES)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert read(local(uri("interrupted"))) == FILES


def test_folders_without_a_manifest_are_read_as_they_lie(storage: Storage) -> None:
    store = storage.store()
    for name, text in {"x.txt": "one", "below/y.txt": "two"}.items():
        obstore.put(store, f"plain/{name}", text.encode())
    assert read(local(uri("plain"))) == {"x.txt": "one", "below/y.txt": "two"}
    assert local(uri("plain/x.txt")).read_text() == "one"
    obstore.put(store, "plain/x.txt", b"changed and longer")
    assert local(uri("plain/x.txt")).read_text() == "changed and longer"


def test_a_file_of_others_above_that_is_called_so_is_passed_over(storage: Storage) -> None:
    obstore.put(storage.store(), "others/_manifest.json", b'{"entries": []}')
    obstore.put(storage.store(), "others/corpus/x.txt", b"one")
    assert read(local(uri("others/corpus"))) == {"x.txt": "one"}
    with pytest.raises(InputError, match="is no manifest of this version of rayner"):
        local(uri("others"))


@pytest.mark.parametrize("text", ["s3://tests/x/..", "s3://tests/x/../y", "s3://tests/%2e%2e/y"])
def test_a_uri_with_a_way_up_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"has a part that is `.` or `..`"):
        uri_of(text)


def test_without_links_files_are_copied(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.EMLINK, "Too many links")

    obstore.put(storage.store(), "linkless/x.txt", b"one")
    monkeypatch.setattr(os, "link", full)
    assert read(local(uri("linkless"))) == {"x.txt": "one"}


def test_what_is_wrong_with_the_folder_here_is_told_of_the_uri(storage: Storage) -> None:
    with (
        pytest.raises(InputError) as raised,
        worked_on(Path(uri("told")), "works") as (folder, _),
    ):
        raise InputError(str(folder / "x"), "is wrong", f"look at {folder}")
    assert str(raised.value) == "s3://tests/told/x: is wrong; look at s3://tests/told"


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
    with pytest.raises(InputError, match="start over if the command has --fresh"), worked_on(out, "works"):
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
    with kept_in_place(out, "works", fresh=True) as (folder, _):
        assert read(folder) == FILES


def test_what_is_appended_to_while_it_is_uploaded_is_read_on_another_machine(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = published("appended", {"answers.jsonl": "x" * 2**24})
    answers, hash_ = publication.folder / "answers.jsonl", publication._hashes.of
    answers.write_text("y" * 2**24)

    def hashed(path: Path) -> tuple[int, str]:
        found = hash_(path)
        with answers.open("a") as file:
            file.write("more")
        return found

    monkeypatch.setattr(publication._hashes, "of", hashed)
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


def test_a_place_where_a_file_lies_is_not_worked_on(storage: Storage) -> None:
    objects = storage.store()
    obstore.put(objects, "taken/file", b"Ada")
    published("taken/run")
    for name in ("file", "run/a.txt"):
        before = storage.objects()
        with (
            pytest.raises(InputError, match=f"{uri(f'taken/{name}')}: is a file; name a folder"),
            worked_on(Path(uri(f"taken/{name}")), "works", fresh=True),
        ):
            pass
        assert storage.objects() == before
    # Marks of empty folders, and what a writer left that was killed before its first manifest, are nothing.
    boto3.client("s3").put_object(Bucket=BUCKET, Key="taken/marked/", Body=b"")
    obstore.put(objects, "taken/killed/_objects/1/x", b"half")
    for name in ("marked", "killed", "run"):
        with worked_on(Path(uri(f"taken/{name}")), "works") as (folder, _):
            write(folder, {"own.txt": "Charles"})
        assert local(uri(f"taken/{name}/own.txt")).read_text() == "Charles"


def test_what_a_command_would_hide_is_refused_and_what_lies_beside_it_is_told(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("best/model", "corpus/a"):
        obstore.put(storage.store(), f"copied/{name}", b"Ada")
    out, before = Path(uri("copied")), storage.objects("copied/")
    for written, hidden in ((None, "best"), (["corpus", "last"], "corpus")):
        what = f"s3://tests/copied: holds '{hidden}', which no command put in place there"
        with pytest.raises(InputError, match=what), kept_in_place(out, "works", fresh=True, written=written):
            raise AssertionError("it began to work")
    assert storage.objects("copied/") == before
    for _ in range(2):
        with worked_on(out, "works", written=["last"]) as (folder, _publication):
            write(folder, {"last/model": "Charles"})
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == [
        "s3://tests/copied: what else lies there is read by its own name alone from now on: best, corpus"
    ]
    assert local(out / "best/model").read_text() == "Ada"
    assert local(out / "last/model").read_text() == "Charles"


def test_a_folder_below_with_a_manifest_of_its_own_hides_nothing(storage: Storage) -> None:
    published("above/runs/first")
    with worked_on(Path(uri("above")), "works") as (folder, _):
        write(folder, {"own.txt": "Charles"})
    assert local(uri("above/runs/first/a.txt")).exists()
    assert local(uri("above/own.txt")).read_text() == "Charles"


def test_what_other_tools_put_there_is_taken_up_whole(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("1/a", "2/a", "2/b c", "corpus/x"):
        obstore.put(storage.store(), f"taken-up/{name}", name.encode())
    obstore.put(storage.store(), "taken-up/_objects/1/x", b"half")
    found = {name: name for name in ("1/a", "2/a", "2/b c")}
    write(Publication(uri("taken-up")).folder, {"of/an/earlier": "work"})
    out = Path(uri("taken-up"))

    def fault(method: str, path: str) -> Fault | None:
        return "403" if method == "PUT" and path.endswith("/_manifest.json") else None

    storage.fault = fault
    with pytest.raises(InputError, match="denied"), worked_on(out, "works", takes_up=str.isdigit):
        raise AssertionError("it began to work")
    storage.works()
    assert local(out / "2/b c").read_text() == "2/b c"
    with worked_on(out, "works", takes_up=str.isdigit) as (folder, _):
        assert read(folder) == found
        # From the beginning: who reads it meanwhile, or after a kill, finds all of it.
        assert read(local(out)) == found
        write(folder, {"3/a": "3/a"})
    assert read(local(out)) == {**found, "3/a": "3/a"}
    # What is not the command's own stays apart, also where it changes later.
    assert "by its own name alone from now on: corpus" in caplog.text
    obstore.put(storage.store(), "taken-up/corpus/y", b"later")
    assert read(local(out / "corpus")) == {"x": "corpus/x", "y": "later"}


def test_a_file_is_not_written_where_a_folder_lies(storage: Storage) -> None:
    published("folders/run")
    obstore.put(storage.store(), "folders/plain/x", b"Ada")
    before = storage.objects()
    for name in ("folders", "folders/run", "folders/run/last", "folders/plain"):
        with pytest.raises(InputError, match=f"{uri(name)}: is a folder"), file_at(Path(uri(name))):
            raise AssertionError("it began to work")
    assert storage.objects() == before
    for name in ("folders/plain/x", "folders/plain/y"):
        with file_at(Path(uri(name))) as path:
            path.write_text("Charles")
        assert local(uri(name)).read_text() == "Charles"


def test_who_may_write_a_file_need_not_read_what_lies_there(storage: Storage) -> None:
    storage.fault = lambda method, path: "403" if method in ("GET", "HEAD") else None
    with file_at(Path(uri("dropped/x"))) as path:
        path.write_text("Ada")
    storage.works()
    assert local(uri("dropped/x")).read_text() == "Ada"
