"""Snapshots of folders that others write in."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from rayner.errors import StorageError
from rayner.files import snapshots
from rayner.files.folders import replace_folder
from rayner.files.snapshots import snapshot
from rayner.files.whole import partial_name


def write(folder: Path, text: str) -> None:
    for number in range(20):
        (folder / f"{number}").write_text(text)


def test_a_folder_that_is_replaced_meanwhile_is_of_one_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a loaded machine a copy takes longer than the writer rests, many times in a row.
    monkeypatch.setattr(snapshots, "_TRIES", 10_000)
    run = tmp_path / "run"
    run.mkdir()
    replace_folder(run / "last", lambda folder: write(folder, "0"))
    over = threading.Event()

    def replaces() -> None:
        number = 0
        while not over.wait(0.01):
            number += 1
            replace_folder(run / "last", lambda folder: write(folder, str(number)))  # noqa: B023

    writer = threading.Thread(target=replaces)
    writer.start()
    try:
        seen = set()
        while len(seen) < 5:
            with snapshot(run) as taken:
                texts = {path.read_text() for path in (taken / "last").iterdir()}
                assert len(list((taken / "last").iterdir())) == 20
            assert len(texts) == 1
            seen |= texts
    finally:
        over.set()
        writer.join()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_is_under_way_or_of_this_machine_is_left_out(tmp_path: Path) -> None:
    run = tmp_path / "run"
    aside = (".lock", ".winner.lock", "ray/x", ".examples/x", ".kept.new/x", partial_name("x"))
    for name in ("kept/x", *aside):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).touch()
    with snapshot(run) as taken:
        assert [path.name for path in taken.iterdir()] == ["kept"]


def test_a_folder_between_two_names_is_taken_by_its_own(tmp_path: Path) -> None:
    """As `replace_folder` leaves it for a moment, or where it is killed: the old away, the new one whole."""
    run = tmp_path / "run"
    for name in (".last.old", ".last.new", "best", ".best.new"):
        (run / name).mkdir(parents=True)
        (run / name / "x").write_text(name)
    with snapshot(run) as taken:
        assert {path.name: (path / "x").read_text() for path in taken.iterdir()} == {
            "last": ".last.new",
            "best": "best",
        }


def test_a_folder_that_gets_its_name_after_the_listing_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, copyfile = tmp_path / "run", shutil.copyfile
    (run / ".last.new").mkdir(parents=True)
    (run / ".last.new/x").write_text("new")
    for number in range(20):
        (run / f"{number}").write_text("")

    def slower(source: Path, target: Path) -> None:
        copyfile(source, target)
        if (run / ".last.new").exists() and source.parent == run:
            (run / ".last.new").rename(run / "last")

    monkeypatch.setattr(snapshots.shutil, "copyfile", slower)
    with snapshot(run) as taken:
        assert (taken / "last/x").read_text() == "new"
        assert len(list(taken.iterdir())) == 21


def test_large_files_that_are_written_once_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_COPIED", 3)
    run = tmp_path / "run"
    run.mkdir()
    (run / "small.npy").write_text("xx")
    (run / "large.npy").write_text("xxx")
    with snapshot(run) as taken:
        (run / "small.npy").write_text("yy")
        assert (taken / "small.npy").read_text() == "xx"
        assert (taken / "large.npy").samefile(run / "large.npy")


@pytest.mark.parametrize("name", ["answers.jsonl", "events.out.tfevents.1763.host.7.0", "failures"])
def test_large_files_that_are_appended_to_stay_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(snapshots, "_COPIED", 3)
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_text("xxx")
    with snapshot(run) as taken:
        with (run / name).open("a") as file:
            file.write("more")
        assert (taken / name).read_text() == "xxx"


def test_a_folder_that_never_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_PAUSE", 0)
    run = tmp_path / "run"
    run.mkdir()
    (run / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="changes all the time"), snapshot(run):
        pass
