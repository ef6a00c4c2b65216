"""Parts of folders at URIs: some files are fetched, and some removed, and the rest is left alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rayner.files.fetching import copy_some, local
from rayner.files.manifests import PARTS, Entry
from rayner.files.publishing import Publication, TakenOverError
from tests.files.folders_at_uris import FILES, published, read, uri, write
from tests.object_storage import Storage


def test_files_are_removed_and_whoever_wrote_there_stops(storage: Storage) -> None:
    before = published("dropped")
    gone = {name: text for name, text in FILES.items() if name.startswith("last/")}
    assert gone
    objects = len(storage.objects("dropped/"))
    storage.seen.clear()
    Publication(uri("dropped")).amend(lambda name: name.startswith("last/"))
    assert not [path for method, path in storage.seen if method == "GET" and "_objects" in path]
    assert read(local(uri("dropped"))) == {name: text for name, text in FILES.items() if name not in gone}
    assert len(storage.objects("dropped/")) == objects - len(gone)
    write(before.folder, {"a.txt": "another"})
    with pytest.raises(TakenOverError):
        before.push()


def test_files_are_added_while_another_one_writes(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, seen = published("added"), []

    def unwanted(name: str) -> bool:
        if not seen:
            # It does not know yet that it is to stop.
            seen.append(write(writer.folder, {"a.txt": "another"}))
            writer.push()
        return name == "empty"

    write(tmp_path, {"outcome": "stopped"})
    Publication(uri("added")).amend(unwanted, {"outcome": tmp_path / "outcome"})
    rest = {name: text for name, text in FILES.items() if name != "empty"}
    assert read(local(uri("added"))) == {**rest, "a.txt": "another", "outcome": "stopped"}
    with pytest.raises(TakenOverError):
        writer.push()


def test_an_earlier_process_of_who_removes_files_does_not_go_on(storage: Storage) -> None:
    before = published("amended")
    Publication(before.uri, before.owner).amend(lambda name: name == "empty")
    with pytest.raises(TakenOverError, match="the process that replaced this one"):
        Publication(before.uri, before.owner, before.attempt).open()


def test_a_file_with_the_content_of_one_of_a_part_is_fetched_to_be_worked_on(storage: Storage) -> None:
    publication = published("same", {})
    of_part = Entry(f"{PARTS}/0/_objects/x", 3, hashlib.sha256(b"one").hexdigest())
    publication.elsewhere["of-part.txt"] = of_part
    publication.push()
    write(publication.folder, {"a.txt": "one"})
    publication.push()
    again = Publication(publication.uri)
    again.open()
    assert read(again.folder) == {"a.txt": "one"}
    assert again.elsewhere == {"of-part.txt": of_part}


def test_where_nothing_is_to_be_removed_nobody_is_stopped(storage: Storage) -> None:
    before = published("stays")
    Publication(uri("stays")).amend(lambda name: name == "none")
    Publication(uri("nothing")).amend(lambda name: True)
    before.push()
    assert not storage.objects("nothing/")


def test_some_files_are_copied_and_replace_those_here(storage: Storage, tmp_path: Path) -> None:
    publication, here = published("copied"), tmp_path / "here"
    write(here, {"a.txt": "older", "own": "kept"})
    copy_some(uri("copied"), here, lambda name: "/" not in name)
    top = {name: text for name, text in FILES.items() if "/" not in name}
    assert read(here) == {**top, "own": "kept"}
    # What changes all the time is not kept for others.
    assert not [path for path in (tmp_path / "machine/objects").rglob("*") if path.is_file()]
    write(publication.folder, {"a.txt": "another"})
    publication.push()
    copy_some(uri("copied"), here, lambda name: name == "a.txt")
    assert read(here)["a.txt"] == "another"
    copy_some(uri("nothing"), here, lambda name: True)


def test_a_state_that_is_replaced_while_it_is_copied_is_copied_in_its_new_form(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = published("moving")

    def replaced(name: str) -> bool:
        if (publication.folder / "a.txt").read_text() == "one":
            write(publication.folder, {"a.txt": "another"})
            publication.push()
        return name == "a.txt"

    copy_some(uri("moving"), tmp_path / "here", replaced)
    assert read(tmp_path / "here") == {"a.txt": "another"}
