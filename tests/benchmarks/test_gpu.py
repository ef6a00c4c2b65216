"""The benchmark of GPUs, as far as it goes without one."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from multiprocessing import get_context

import pytest
import torch

from benchmarks import gpu

WITHOUT = ("ray", "faiss")
SMALL = "--device cpu --steps 1 --items 2 --hidden 8 --layers 1 --names 100 --parts tasks index"


def printed_without(options: Sequence[str]) -> str:
    """What the benchmark prints in a process where there is neither."""
    assert sys.modules.keys().isdisjoint(WITHOUT)
    sys.modules |= dict.fromkeys(WITHOUT)
    sys.argv = ["gpu", *options]
    # Before memory is measured all modules would be searched for garbage.
    gc.freeze()
    with redirect_stdout(StringIO()) as printed:
        gpu.main()
    return printed.getvalue()


def test_it_needs_neither_ray_nor_faiss() -> None:
    tasks = ["--tasks", "recognizer", "standardizer", "chains", "unheard"]
    with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
        printed = pool.submit(printed_without, [*SMALL.split(), *tasks]).result()
    found = json.loads(printed.splitlines()[-1])
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
