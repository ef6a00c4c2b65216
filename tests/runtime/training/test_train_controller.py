"""The note of a run's controller, without Ray."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import ray.util

from rayner.runtime.training import train_controller
from rayner.runtime.training.train_controller import CONTROLLER, end_workers, forget, give_up_room


def test_a_note_that_was_left_ends_no_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = []
    monkeypatch.setattr(ray.util, "remove_placement_group", removed.append)
    with subprocess.Popen(["sleep", "600"]) as other:
        note = {"process": other.pid, "placement_group": "ab" * 18}
        (tmp_path / CONTROLLER).write_text(json.dumps(note), "utf-8")
        end_workers(tmp_path)
        assert other.poll() is None
        other.kill()
    assert [group.id.hex() for group in removed] == [note["placement_group"]]
    assert not (tmp_path / CONTROLLER).exists()
    end_workers(tmp_path)
    forget(tmp_path)
    assert len(removed) == 1


def test_room_is_given_up_and_no_process_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed, killed = [], []
    monkeypatch.setattr(ray.util, "remove_placement_group", removed.append)
    monkeypatch.setattr(train_controller, "_is_controller", lambda process: True)
    monkeypatch.setattr(train_controller.os, "kill", lambda *given: killed.append(given))
    note = {"process": 1, "placement_group": "cd" * 18}
    (tmp_path / CONTROLLER).write_text(json.dumps(note), "utf-8")
    for _ in range(2):
        give_up_room(tmp_path)
    assert [group.id.hex() for group in removed] == [note["placement_group"]]
    assert not killed
