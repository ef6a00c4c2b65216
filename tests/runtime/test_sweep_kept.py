"""The copy of a population's state that is whole whenever a kill comes."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rayner.runtime.sweeps.kept import TUNER, bring_back, keep_state

STATE = "experiment_state-2026-01-01.json"


class Killed(Exception):
    """What a kill -9 is here."""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """What Ray Tune writes, where it copies it to (with the tuner), and what is kept."""
    written, storage = tmp_path / "written", tmp_path / "storage"
    written.mkdir()
    storage.mkdir()
    (storage / TUNER).write_text("tuner")
    return written, storage, tmp_path / "kept"


def write(written: Path, text: str, second: int) -> None:
    (written / STATE).write_text(text)
    (written / "search_gen_state-2026-01-01.json").write_text(text)
    os.utime(written / STATE, (second, second))


def test_nothing_is_brought_back_where_nothing_was_kept(folders: tuple[Path, Path, Path]) -> None:
    written, storage, kept = folders
    assert not bring_back(kept, storage)
    keep_state(written, storage / TUNER, kept)
    assert not bring_back(kept, storage)


def test_a_cut_state_gives_way_to_the_one_that_was_kept(folders: tuple[Path, Path, Path]) -> None:
    written, storage, kept = folders
    write(written, "first", 1)
    keep_state(written, storage / TUNER, kept)
    (storage / STATE).write_text("fir")
    (storage / TUNER).write_text("tun")
    # That of a later launch, of which nothing whole was written: Ray Tune would take the last name.
    (storage / "experiment_state-2026-01-02.json").write_text("")
    assert bring_back(kept, storage)
    assert (storage / STATE).read_text() == "first"
    assert (storage / TUNER).read_text() == "tuner"
    assert [path.name for path in storage.glob("experiment_state-*")] == [STATE]


def test_only_the_last_state_is_kept(folders: tuple[Path, Path, Path]) -> None:
    written, storage, kept = folders
    for second in (1, 2, 2, 3):
        write(written, f"at {second}", second)
        keep_state(written, storage / TUNER, kept)
    # A resumed tuner is copied again and again, so that it may be cut by now.
    (storage / TUNER).write_text("tun")
    write(written, "at 4", 4)
    keep_state(written, storage / TUNER, kept)
    assert len(list(kept.iterdir())) == 1
    assert bring_back(kept, storage)
    assert (storage / STATE).read_text() == "at 4"
    assert (storage / TUNER).read_text() == "tuner"


@pytest.mark.parametrize("call", ["copy2", "replace", "rmtree"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_kill_at_any_call_leaves_a_whole_state(
    folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, call: str, at: int
) -> None:
    written, storage, kept = folders
    write(written, "first", 1)
    keep_state(written, storage / TUNER, kept)
    write(written, "second", 2)
    module = os if call == "replace" else shutil
    original, calls = getattr(module, call), []

    def killed(*given: Any, **options: Any) -> Any:
        calls.append(given)
        if len(calls) == at:
            if call == "copy2":
                target = Path(given[1])
                (target / Path(given[0]).name if target.is_dir() else target).write_text("cut")
            raise Killed
        return original(*given, **options)

    with monkeypatch.context() as context:
        context.setattr(module, call, killed)
        with suppress(Killed):
            keep_state(written, storage / TUNER, kept)
    assert bring_back(kept, storage)
    state = (storage / STATE).read_text()
    assert state == "second" or (state == "first" and len(calls) == at)
    assert (storage / "search_gen_state-2026-01-01.json").read_text() == state
    assert (storage / TUNER).read_text() == "tuner"
    write(written, "third", 3)
    keep_state(written, storage / TUNER, kept)
    assert [(folder / STATE).read_text() for folder in kept.iterdir()] == ["third"]
