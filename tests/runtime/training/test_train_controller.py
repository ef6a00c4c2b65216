"""The note of a run's controller, without Ray."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
import ray.util

from rayner.runtime.training import train_controller
from rayner.runtime.training.train_controller import (
    CONTROLLER,
    end_workers,
    forget,
    give_up_room,
    note_room,
)


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


@pytest.mark.parametrize(("node", "process"), [("here", 1), ("elsewhere", None)])
def test_a_worker_notes_its_room_and_a_controller_on_its_node(
    node: str, process: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = SimpleNamespace(id=SimpleNamespace(hex=lambda: "ab" * 18))
    monkeypatch.setattr(ray.util, "get_current_placement_group", lambda: group)
    here = SimpleNamespace(get_node_id=lambda: "here")
    monkeypatch.setattr(ray, "get_runtime_context", lambda: here)
    monkeypatch.setattr(train_controller, "_controller", (1, node))
    # Of workers that were started before, in another room.
    (tmp_path / CONTROLLER).write_text(json.dumps({"process": 2, "placement_group": "cd" * 18}), "utf-8")
    note_room(tmp_path)
    note = json.loads((tmp_path / CONTROLLER).read_text("utf-8"))
    assert note == {"process": process, "placement_group": "ab" * 18}
    removed, killed = [], []
    monkeypatch.setattr(ray.util, "remove_placement_group", removed.append)
    monkeypatch.setattr(train_controller, "_is_controller", lambda process: True)
    monkeypatch.setattr(train_controller.os, "kill", lambda *given: killed.append(given))
    end_workers(tmp_path)
    assert [group.id.hex() for group in removed] == ["ab" * 18]
    assert len(killed) == (process is not None)
