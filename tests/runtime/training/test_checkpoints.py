"""Folders that survive a full disk and a kill, and checkpoints that do not load what they should not."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rayner.errors import CheckpointError, InputError, StorageError
from rayner.files.folders import replace_folder, settle_folder
from rayner.runtime.training import run_state as checkpoints
from rayner.runtime.training.loop import work
from rayner.tasks.checkpoint import load_checkpoint, read_recipe
from rayner.tasks.checkpoint_files import check_files
from rayner.tasks.registry import parse_recipe
from tests.runtime.training.other_recipe import replace_recipe
from tests.runtime.training.toy_task import toy_recipe, toy_run


def write(text: str):
    return lambda folder: (folder / "file").write_text(text)


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "last"
    replace_folder(folder, write("one"))

    def write_for_the_owner(partial: Path) -> None:
        write("two")(partial)
        (partial / "file").chmod(0o600)

    replace_folder(folder, write_for_the_owner)
    assert (folder / "file").read_text() == "two"
    assert (folder / "file").stat().st_mode & 0o777 == 0o644
    assert [p.name for p in tmp_path.iterdir()] == ["last"]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "last"
    replace_folder(folder, write("one"))

    def fill(partial: Path) -> None:
        (partial / "file").write_text("tw")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(InputError, match="free some space"):
        replace_folder(folder, fill)
    assert (folder / "file").read_text() == "one"
    assert [p.name for p in tmp_path.iterdir()] == ["last"]


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_killed_between_any_two_renames_a_whole_folder_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    folder = tmp_path / "last"
    replace_folder(folder, write("one"))
    rename, done = Path.rename, 0

    def dying(self: Path, target: Path) -> Path:
        nonlocal done
        if done == renames:
            raise KeyboardInterrupt
        done += 1
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with pytest.raises(KeyboardInterrupt):
            replace_folder(folder, write("two"))
    settle_folder(folder)
    assert (folder / "file").read_text() == ("one" if renames == 0 else "two")
    assert [p.name for p in tmp_path.iterdir()] == ["last"]


def test_a_run_on_a_full_disk_keeps_its_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, calls = checkpoints.save_checkpoint, 0

    def full_at_second(*arguments) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_checkpoint", full_at_second)
        with pytest.raises(InputError, match="free some space"):
            work(toy_run(tmp_path, checkpoint_every=1))
    state = checkpoints.read_state(tmp_path, toy_recipe(checkpoint_every=1))
    assert state is not None
    assert state.step == 1
    assert work(toy_run(tmp_path, checkpoint_every=1)).finished


STORAGE = [errno.EIO, errno.ESTALE, errno.EACCES]


@pytest.mark.parametrize("number", STORAGE)
def test_storage_that_fails_while_writing_leaves_what_was_there(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "last"
    replace_folder(folder, write("one"))

    def fail(partial: Path) -> None:
        # As safetensors reports it.
        raise RuntimeError(f"Error while serializing: I/O error: whatever (os error {number})")

    with pytest.raises(StorageError, match=rf"unharmed \({os.strerror(number)}\).*resumed") as caught:
        replace_folder(folder, fail)
    assert caught.value.where == str(folder)
    assert "--fresh" not in str(caught.value)
    assert (folder / "file").read_text() == "one"


@pytest.mark.parametrize("number", STORAGE)
@pytest.mark.parametrize("reader", ["check_files", "read_recipe", "safe_open"])
def test_storage_that_fails_while_reading_is_no_reason_to_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reader: str
) -> None:
    work(replace(toy_run(tmp_path), until=1))

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, reader, fail)
        with pytest.raises(StorageError, match=rf"last.*{os.strerror(number)}.*resumed") as caught:
            work(toy_run(tmp_path))
    assert "--fresh" not in str(caught.value)
    assert work(toy_run(tmp_path)).finished


@pytest.mark.parametrize("number", STORAGE)
def test_an_epochs_state_that_the_storage_does_not_give_is_no_reason_to_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    cpu = torch.device("cpu")
    assert checkpoints.load_epoch_state(tmp_path, cpu) is None
    path = tmp_path / "last/state/epoch.safetensors"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"cut short")
    with pytest.raises(CheckpointError, match="start over with --fresh"):
        checkpoints.load_epoch_state(tmp_path, cpu)

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(checkpoints, "load_file", fail)
    with pytest.raises(StorageError, match=rf"epoch.*{os.strerror(number)}.*resumed") as caught:
        checkpoints.load_epoch_state(tmp_path, cpu)
    assert "--fresh" not in str(caught.value)


def test_a_file_that_the_storage_does_not_give_is_not_called_damaged(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "read_text", fail)
    for read in (check_files, read_recipe):
        with pytest.raises(StorageError, match=os.strerror(errno.EIO)):
            read(checkpoint)


def test_the_identity_of_a_state_changes_with_each_save(tmp_path: Path) -> None:
    assert checkpoints.identity_of_last(tmp_path) == ""
    seen = set()
    for epochs in (1, 2, 3):
        work(replace(toy_run(tmp_path), until=epochs))
        seen.add(checkpoints.identity_of_last(tmp_path))
    assert len(seen) == 3
    (tmp_path / "last/state/state.json").write_text("{")
    assert checkpoints.identity_of_last(tmp_path).startswith("unreadable")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    work(toy_run(tmp_path, epochs=1))
    return tmp_path / "best"


def test_a_checkpoint_is_open_and_described(checkpoint: Path) -> None:
    names = {path.name for path in checkpoint.iterdir()}
    assert {"recipe.yaml", "model.safetensors", "metrics.json", "README.md", "checkpoint.json"} <= names
    assert "state" not in names
    check_files(checkpoint)
    assert read_recipe(checkpoint) == toy_recipe(epochs=1)
    assert "## Scores" in (checkpoint / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", None, "is missing"),
        ("model.safetensors", b"\x80\x04.", "not the file that was saved"),
        ("recipe.yaml", None, "name a checkpoint folder"),
        ("recipe.yaml", b"task: [", "cannot be read"),
        ("recipe.yaml", b"- 1", "not a mapping"),
        ("recipe.yaml", b"task: oracle", "is no task"),
        ("checkpoint.json", None, "is missing"),
        ("checkpoint.json", b"{", "not the file"),
        ("checkpoint.json", b"[]", "not the file"),
        ("checkpoint.json", b'{"format": 99, "files": {}}', "format 99"),
        ("checkpoint.json", b'{"format": 1, "files": {"../../secret": "0"}}', "outside the checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_file(
    checkpoint: Path, name: str, content: bytes | None, message: str
) -> None:
    path = checkpoint / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_checkpoint(checkpoint)
    assert name in caught.value.where
    assert caught.value.hint


def test_weights_of_another_model_are_refused(checkpoint: Path) -> None:
    # The folder is whole, but its recipe describes a tagger, which has an encoder.
    values = toy_recipe(epochs=1).model_dump(mode="json", exclude={"dropout"})
    replace_recipe(checkpoint, parse_recipe({**values, "task": "tagger"}, "recipe"))
    with pytest.raises(CheckpointError, match="encoder"):
        load_checkpoint(checkpoint)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="RUN/best"):
        load_checkpoint(tmp_path / "nowhere")


def test_metrics_may_be_edited(checkpoint: Path) -> None:
    assert "metrics.json" not in json.loads((checkpoint / "checkpoint.json").read_text())["files"]
    (checkpoint / "metrics.json").write_text(json.dumps({"f1": 0.5}))
    check_files(checkpoint)
