"""The same work over many parts as Ray tasks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ray

from rayner.errors import InputError
from rayner.runtime.elsewhere import WAIT_VARIABLE
from rayner.runtime.parallel import parallel_map


@dataclass
class Noting:
    """Work that notes each time that it is unpickled."""

    folder: Path

    def __call__(self, part: int) -> tuple[int, int]:
        return part, os.getpid()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        with (self.folder / str(os.getpid())).open("a") as file:
            file.write("unpickled\n")


@pytest.mark.usefixtures("ray_cluster")
def test_a_process_unpickles_the_work_once_however_many_parts_it_does(tmp_path: Path) -> None:
    for name in ("one", "another"):
        folder = tmp_path / name
        folder.mkdir()
        done = list(parallel_map(Noting(folder), range(8), 1))
        assert sorted(part for part, _ in done) == list(range(8))
        noted = {path.name: path.read_text() for path in folder.iterdir()}
        assert noted == {str(process): "unpickled\n" for _, process in done}


@pytest.mark.usefixtures("ray_cluster")
def test_a_part_that_asks_a_model_has_a_gpu_of_its_own_or_sees_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 1.0, "GPU": 1.0})
    assert [*parallel_map(os.getenv, ["CUDA_VISIBLE_DEVICES"], 1, asks_model=True)] == [""]
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 1.0, "GPU": 1.0})
    assert [*parallel_map(str, [1], 1)] == ["1"]
    monkeypatch.setenv(WAIT_VARIABLE, "1")
    with pytest.raises(InputError, match="no node has had room for cpus 1, gpus 1"):
        list(parallel_map(str, [1], 1, asks_model=True))
