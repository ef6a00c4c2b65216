"""Folders at URIs over HTTP: whole or not at all, one writer, and one clear line for what is wrong."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import obstore
import pytest

from rayner.errors import InputError, RaynerError, StorageError
from rayner.files import fetching
from rayner.files.fetching import is_there, local, storage_failure
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.working import kept_in_place, shown_at, worked_on
from tests.object_storage import BUCKET, Fault, Storage

FILES = {"a.txt": "one", "last/model.bin": "x" * 100, "last/leer zeichen/ü #1%20.txt": "two", "empty": ""}


def uri(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def read(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}


def published(name: str, files: dict[str, str] | None = None) -> Publication:
    publication = Publication(uri(name))
    publication.open()
    write(publication.folder, files if files is not None else FILES)
    publication.push()
    return publication


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


def one_line(error: RaynerError) -> str:
    text = str(error)
    assert "\n" not in text
    return text


def test_an_object_that_is_gone(storage: Storage) -> None:
    publication = published("gone", {"a.txt": "one"})
    [key] = storage.objects("gone/_objects")
    obstore.delete(storage.store(), [key])
    with pytest.raises(
        InputError, match=r"its manifest names an object that is gone \(s3://tests/gone/_obj"
    ) as e:
        local(publication.uri)
    one_line(e.value)


def test_an_object_of_other_content(storage: Storage) -> None:
    publication = published("changed", {"a.txt": "one"})
    [key] = storage.objects("changed/_objects")
    obstore.put(storage.store(), key, b"two")
    with pytest.raises(StorageError, match="not the 3 of its manifest"):
        local(publication.uri)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"format": 7}', b'{"format": 1, "files": {"../x": {}}}'])
def test_what_is_no_manifest(storage: Storage, content: bytes) -> None:
    obstore.put(storage.store(), "strange/_manifest.json", content)
    for use in (lambda: local(uri("strange")), lambda: Publication(uri("strange")).open()):
        with pytest.raises(InputError, match="is no manifest"):
            use()


def test_a_bucket_that_is_missing(storage: Storage) -> None:
    for use in (lambda: local("s3://nowhere/x"), lambda: Publication("s3://nowhere/x").open()):
        with pytest.raises(InputError, match="s3://nowhere/x: there is no such bucket") as caught:
            use()
        one_line(caught.value)
    with pytest.raises(InputError, match="no such file or folder"):
        local(uri("none"))


def test_no_rights(storage: Storage) -> None:
    storage.fault = lambda method, path: "403"
    for use in (lambda: local(uri("secret")), lambda: Publication(uri("secret")).open()):
        with pytest.raises(InputError, match="s3://tests/secret: access is denied") as caught:
            use()
        one_line(caught.value)


def test_no_credentials(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(InputError, match="no credentials were found"):
        Publication(uri("x"))


@pytest.mark.parametrize(
    "given",
    [
        "s3://AKID:verysecret@tests/x",
        "s3://AKID@tests/x",
        "s3://tests/x?aws_secret_access_key=verysecret",
        "abfs://user:verysecret@account/x",
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_shown(given: str) -> None:
    for use in (lambda: local(given), lambda: local(Path(given).absolute()), lambda: is_there(given)):
        with pytest.raises(InputError, match="holds credentials") as caught:
            use()
        assert "verysecret" not in str(caught.value)
        assert "AKID" not in str(caught.value)


def test_paths_of_this_machine_stay_what_they_are(tmp_path: Path) -> None:
    odd = tmp_path / "s3:" / "x"
    odd.mkdir(parents=True)
    assert local(odd) == odd
    assert local("plain/path") == Path("plain/path")
    with pytest.raises(InputError, match="has no conditional writes"):
        Publication("memory://x/y")
    with pytest.raises(InputError, match="AWS_ENDPOINT_URL"):
        local("s3://tests/x?region=eu-west-1")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject operation", "access is denied"),
        ("AWS Error UNKNOWN (HTTP status 403) during HeadObject operation: No response body.", "denied"),
        ("Server returned non-2xx status code: 401 Unauthorized", "access is denied"),
        ("Error performing PUT in 348.643403ms - Server returned non-2xx status code: 503", "cannot be read"),
        ("Error getting credentials from http://169.254.169.254/latest", "no credentials were found"),
    ],
)
def test_what_storage_says_in_one_line(text: str, what: str) -> None:
    error = storage_failure(uri("x"), OSError(text + "\n<Error>more</Error>"))
    assert what in one_line(error)
    assert isinstance(error, StorageError) == (what == "cannot be read")
