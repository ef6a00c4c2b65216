"""The benchmark of GPUs, as far as it goes without one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import gpu

WITHOUT = "import sys; sys.modules |= {'ray': None, 'faiss': None}; from benchmarks.gpu import main; main()"
SMALL = "--device cpu --steps 1 --items 2 --hidden 8 --layers 1 --names 100 --parts tasks index"


def test_it_needs_neither_ray_nor_faiss(root: Path) -> None:
    tasks = ["--tasks", "recognizer", "standardizer", "chains", "unheard"]
    command = [sys.executable, "-c", WITHOUT, *SMALL.split(), *tasks]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    rows = [row for row in found["tasks"] if "skipped" not in row]
    assert [row["task"] for row in found["tasks"] if "skipped" in row] == ["unheard"]
    used = [(name, precision) for name in tasks[1:4] for precision in ("float32", "bfloat16")]
    assert [(row["task"], row["precision"]) for row in rows] == used
    for row in rows:
        assert row["training_over_floor"] > 0
        assert row["inference_over_float32_floor"] > 0
        assert row["decisions"] > 0
        assert row["equals_the_cpu"] or row["precision"] == "bfloat16"
        assert (row["largest_score_difference"] > 0) <= (row["precision"] == "bfloat16")
    assert found["index"]["neighbours_as_on_the_cpu"] == 1


def test_it_says_where_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    monkeypatch.setattr("sys.argv", ["gpu"])
    gpu.main()
    assert json.loads(capsys.readouterr().out).keys() == {"skipped"}
