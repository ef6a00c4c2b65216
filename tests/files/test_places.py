"""Files on any storage: whole or not at all, also when their writer is interrupted."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import obstore
import pytest
from pyarrow.fs import FileSystem

from rayner.errors import InputError
from rayner.files import places
from rayner.files.fetching import local
from rayner.files.places import Place, place_of
from rayner.files.publishing import Publication
from rayner.files.uris import quoted
from tests.object_storage import BUCKET, Fault, Storage
from tests.waiting import wait_for

# More than Arrow uploads as one part.
DATA = os.urandom(1 << 20) * 24


@contextmanager
def interrupted() -> Iterator[None]:
    """What is done in here ends with Ctrl-C, as in a program that leaves it to Python."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def place(storage: Storage, tmp_path: Path) -> Place:
    return place_of(f"s3://{BUCKET}/{tmp_path.name}/x.bin")


def test_an_interrupted_upload_is_ended_first(storage: Storage, place: Place) -> None:
    sent: list[str] = []

    def interrupt_once(method: str, path: str) -> Fault | None:
        if method == "POST" and not sent:
            sent.append(path)
            os.kill(os.getpid(), signal.SIGINT)
        return None

    storage.fault = interrupt_once
    with interrupted():
        place.write(DATA)
    assert sent
    assert place.read() == DATA


def test_an_upload_that_is_interrupted_again_ends_behind_its_writer(storage: Storage, place: Place) -> None:
    sent: list[str] = []
    heard: list[int] = []
    told, over, gone = threading.Semaphore(0), threading.Event(), threading.Event()

    def interrupt_twice(method: str, path: str) -> Fault | None:
        if method in ("POST", "PUT") and len(sent) < 2:
            sent.append(method)
            # One that comes just before the main thread begins to wait is not heard until it is done.
            os.kill(os.getpid(), signal.SIGINT)
            while not told.acquire(timeout=0.2):
                os.kill(os.getpid(), signal.SIGINT)
            if len(sent) == 2:
                over.set()
                gone.wait(30)
        return None

    def hear(number: int, frame: Any) -> None:
        heard.append(number)
        told.release()
        if len(heard) <= 2:
            signal.default_int_handler(number, frame)

    storage.fault = interrupt_twice
    with interrupted():
        signal.signal(signal.SIGINT, hear)
        try:
            place.write(DATA)
        finally:
            assert over.wait(300)
    gone.set()
    assert sent == ["POST", "PUT"]
    wait_for(lambda: place.read() == DATA)


def test_an_upload_whose_thread_is_interrupted_at_its_start_never_begins(
    storage: Storage, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupt(self: threading.Thread) -> None:
        start(self)
        if "ThreadPoolExecutor" in self.name:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, interrupted():
        patched.setattr(threading.Thread, "start", interrupt)
        place.write(DATA)
    for thread in threading.enumerate():
        if "ThreadPoolExecutor" in thread.name:
            thread.join(30)
    assert place.read() is None


@pytest.mark.parametrize("name", ["a#1.txt", "a b.txt", "é.txt", "100%.txt", "a%20b.txt"])
def test_names_at_uris_are_those_of_the_objects(storage: Storage, name: str) -> None:
    key = name.replace("%20", " ")
    obstore.put(storage.store(), f"named/{key}", b"Ada")
    uri = f"s3://{BUCKET}/named/{name}"
    assert place_of(uri).read() == b"Ada"
    assert local(uri).read_bytes() == b"Ada"
    folder = Publication(f"s3://{BUCKET}/named/{name}.run")
    folder.open()
    (folder.folder / "own.txt").write_text("Charles")
    folder.push()
    assert f"named/{key}.run/_manifest.json" in storage.objects("named/")
    assert (local(folder.uri) / "own.txt").read_text() == "Charles"


@pytest.mark.parametrize(
    "key", ["", "/", "/k", "/k/", "/a b/%C3%BC#x", "/a%2Fb", "/a//b", "//a", "/a:b@c", "/../x"]
)
def test_a_uri_leads_where_pyarrow_says(storage: Storage, key: str) -> None:
    uri = f"s3://{BUCKET}{key}"
    assert place_of(uri).path == FileSystem.from_uri(quoted(uri))[1]


def test_the_uris_of_a_bucket_share_a_client_for_as_long_as_the_settings_hold(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (place_of(f"s3://{BUCKET}/{name}").filesystem for name in ("a", "b/c"))
    assert one is other
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ANOTHER")
    assert place_of(f"s3://{BUCKET}/a").filesystem is not one


def test_a_uri_that_is_not_utf_8_is_refused(storage: Storage) -> None:
    with pytest.raises(InputError, match="cannot be reached"):
        place_of(f"s3://{BUCKET}/%FF")


def test_a_file_whose_store_tells_no_time_is_read_again_where_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path))
    files, uri = fsspec.filesystem("memory"), "memory://changing/kb.csv"
    assert place_of(uri).info().mtime_ns is None
    for content in (b"old", b"new"):
        files.pipe("/changing/kb.csv", content)
        assert local(uri).read_bytes() == content
    files.pipe("/changing/kb.csv", b"old")
    # Of a store that says nothing at all, too.
    monkeypatch.setattr(places, "_TELL_OF_CHANGES", ())
    assert local(uri).read_bytes() == b"old"
    files.rm("/changing", recursive=True)


def test_an_object_that_is_replaced_within_a_second_is_read_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, now = f"s3://{BUCKET}/same-second/kb.csv", time.time_ns
    wait_for(lambda: now() % 10**9 < 5 * 10**8, 5)
    folder = uri.rpartition("/")[0]
    for content in (b"old", b"new"):
        obstore.put(storage.store(), "same-second/kb.csv", content)
        assert local(uri).read_bytes() == (local(folder) / "kb.csv").read_bytes() == content
    storage.works()
    assert local(uri) == local(uri)
    assert not [path for method, path in storage.seen if method == "GET" and "list-type" not in path]
    # Later, it is the one that is there still; of an old one nothing more is asked for.
    monkeypatch.setattr(places.time, "time_ns", lambda: now() + 10**10)
    assert local(uri).read_bytes() == (local(folder) / "kb.csv").read_bytes() == b"new"
    storage.works()
    local(uri)
    assert len(storage.seen) == 1


def test_what_has_not_changed_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path))
    fsspec.filesystem("memory").pipe("/kept/kb.csv", b"old")
    assert local("memory://kept/kb.csv") == local("memory://kept/kb.csv")
    fsspec.filesystem("memory").rm("/kept", recursive=True)
