"""Locks: who holds them is named, waiting has a bound, and what is no other process is not called one."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rayner.errors import InputError, RaynerError, StorageError
from rayner.files import locks
from rayner.files.locks import LOCK, locked
from rayner.files.places import place_of
from rayner.runtime.annotation.output_folder import Output

HOLD = """
import sys
from pathlib import Path
from rayner.files.locks import locked
with locked(Path(sys.argv[1]), "holds it"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / ".lock")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate("")


def test_who_holds_it_is_named(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    what = rf"another process \(process {holder.pid} on .*\) runs here"
    found = f"{what}; wait for it, stop it, or work in another folder"
    with pytest.raises(InputError, match=found), locked(tmp_path / ".lock", "runs here"):
        pass


def test_waiting_is_logged_once_and_has_a_bound(
    tmp_path: Path,
    holder: subprocess.Popen[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(locks, "PAUSE", 0.01)
    caplog.set_level(logging.INFO)
    with (
        pytest.raises(RaynerError, match="builds, and has for 0 seconds"),
        locked(tmp_path / ".lock", "builds", 0.1),
    ):
        pass
    [record] = caplog.records
    assert f"process {holder.pid} on" in record.getMessage()


def test_a_lock_is_had_when_its_holder_ends(
    tmp_path: Path, holder: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    holder.kill()
    with locked(tmp_path / ".lock", "runs here", 60):
        assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")


def test_a_disk_that_is_full_is_told_of_the_folder(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    what = rf"{tmp_path}: there is no room to write it \(File too large\); free some"
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(InputError, match=what), locked(tmp_path / LOCK, "runs here"):
            raise AssertionError("it began to work")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with locked(tmp_path / LOCK, "runs here"):
        assert (tmp_path / LOCK).read_text().startswith(f"process {os.getpid()} on ")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("what", ["lock", "sweep", "annotation"])
def test_a_file_system_without_locks_is_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, what: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    opened = {
        "lock": lambda: locked(tmp_path / ".lock", "runs here", 60),
        "sweep": lambda: locked(tmp_path / LOCK, "runs a sweep in this folder"),
        "annotation": lambda: Output(place_of(str(tmp_path))).locked(),
    }[what]
    with (
        pytest.raises(StorageError, match=rf"cannot be locked \({os.strerror(number)}\)") as caught,
        opened(),
    ):
        pass
    assert "another" not in str(caught.value)
