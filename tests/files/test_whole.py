"""Files and folders that are there whole or not at all, and what killed writers leave."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rayner.errors import InputError
from rayner.files.folders import is_left_over, place_folder, remove_folder, replace_folder
from rayner.files.whole import drop_partials, is_partial, partial_name, text_file, whole_file, write_json
from rayner.files.working import write_lines


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_place_without_files_is_told_in_one_line() -> None:
    for path in (Path("/proc/page.html"), Path("/proc/below/page.html")):
        with pytest.raises(InputError, match=r"/proc.* can be made there; name a place"):
            write_json(path, {})


def test_a_file_takes_its_place_when_all_went_well(tmp_path: Path) -> None:
    path = tmp_path / "below" / "file"
    write_json(path, {"é": 1})
    assert path.read_text("utf-8") == '{\n "é": 1\n}'

    def stopped() -> None:
        with text_file(path) as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert path.read_text("utf-8") == '{\n "é": 1\n}'
    assert names(path.parent) == ["file"]


@pytest.fixture
def room() -> Iterator[Callable[[int], None]]:
    """Sets how many bytes a file may have, as on a disk that is almost full; 0: as many as before."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size or before[0], before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_lines_for_which_there_is_no_room_are_told_of_the_output(
    tmp_path: Path, room: Callable[[int], None], name: str
) -> None:
    out, lines = tmp_path / name, [os.urandom(500).hex() for _ in range(100)]
    room(1000)
    with pytest.raises(InputError) as raised:
        write_lines(out, lines)
    room(0)
    assert str(raised.value).startswith(f"--out {out}: there is no room to write it (File too large)")

    def of_the_input() -> Iterator[str]:
        yield "one"
        raise PermissionError(13, "Permission denied", "input.jsonl")

    with pytest.raises(PermissionError, match=r"input\.jsonl"):
        write_lines(out, of_the_input())
    assert names(tmp_path) == []
    assert write_lines(out, lines) == 100


def test_two_writers_of_a_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with whole_file(path) as one:
        one.write_text("one")
        with whole_file(path) as other:
            other.write_text("other")
        assert path.read_text() == "other"
    assert path.read_text() == "one"


def test_what_killed_writers_left_is_told_from_what_is_a_users(tmp_path: Path) -> None:
    left, users = partial_name("file"), ".notes.partial"
    assert is_partial(left)
    assert not is_partial(users)
    for name in (left, users, "file"):
        (tmp_path / name).touch()
    drop_partials(tmp_path)
    assert names(tmp_path) == [users, "file"]


def test_folders_take_their_place_and_go_at_once(tmp_path: Path) -> None:
    partial, folder = tmp_path / "made", tmp_path / "folder"
    partial.mkdir()
    (partial / "file").touch()
    place_folder(partial, folder)
    assert names(tmp_path) == ["folder"]
    # As a process leaves it that is killed while it removes the folder.
    (tmp_path / ".folder.old").mkdir()
    assert is_left_over(".folder.old")
    remove_folder(folder)
    assert names(tmp_path) == []
    replace_folder(folder, lambda new: (new / "file").touch())
    assert names(folder) == ["file"]


def test_a_folder_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, a power failure leaves the name to files that are empty."""
    seen: list[str] = []
    sync, rename = os.fsync, Path.rename

    def syncing(handle: int) -> None:
        seen.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    def renaming(path: Path, target: Path) -> Path:
        seen.append(f"named {target.name}")
        return rename(path, target)

    def write(folder: Path) -> None:
        folder.joinpath("below").mkdir()
        folder.joinpath("below/file").touch()

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(Path, "rename", renaming)
    for _ in range(2):
        seen.clear()
        replace_folder(tmp_path / "folder", write)
    flushed, parent = ["below", "file"], tmp_path.name
    names = [f"named {name}" for name in (".folder.new", ".folder.old", "folder")]
    assert seen == [*flushed, ".folder.partial", *names, parent]
    seen.clear()
    (tmp_path / "made").mkdir()
    write(tmp_path / "made")
    place_folder(tmp_path / "made", tmp_path / "placed")
    assert seen == [*flushed, "made", "named placed", parent]


def test_json_holds_what_json_can(tmp_path: Path) -> None:
    values = {"scores": [float("-inf"), float("nan"), 0.5], "counts": {1: np.int64(3)}}
    write_json(tmp_path / "a.json", values)
    assert json.loads((tmp_path / "a.json").read_text()) == {"scores": [None, None, 0.5], "counts": {"1": 3}}
