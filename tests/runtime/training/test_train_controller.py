"""The note of a run's controller, without Ray."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import ray.util

from rayner.runtime.training.train_controller import CONTROLLER, end_workers, forget


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
