from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import recognizer_speed, typer_speed
from benchmarks.meter import Meter


def test_the_benchmark_prints_its_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = "--encoder random:16x1 --types 1 5 --tokens 32 --windows 2 --rounds 1 --types-per-step 2 --json"
    out = ["--out", str(tmp_path / "speed.json")]
    monkeypatch.setattr("sys.argv", ["recognizer_speed", *small.split(), *out])
    recognizer_speed.main()
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert [(row["types"], row["tokens"]) for row in rows] == [(1, 32), (5, 32)]
    for key in ("inference_over_floor", "training_over_floor", "training_over_floor_cached_types"):
        assert all(row[key] > 0 for row in rows)


def test_that_of_the_tagger_and_the_typer_prints_its_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = "--encoder random:16x1 --types 7 --tokens 32 --windows 2 --rounds 1 --json --out"
    monkeypatch.setattr("sys.argv", ["typer_speed", *small.split(), str(tmp_path / "speed.json")])
    typer_speed.main()
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert [row["types"] for row in rows] == [8, 8, 8, 7, 7]
    assert all(row["inference_over_floor"] > 0 and row["words_per_second"] > 0 for row in rows)


def test_the_peak_is_what_a_step_takes_and_not_what_earlier_ones_left() -> None:
    meter = Meter("cpu", "float32")
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("only Linux says how far a step raises the memory of a process")
    for megabytes in (256, 64, 128):
        found = meter.peak_mb(lambda count=megabytes: torch.ones(count * 2**18).sum())
        assert abs(found - megabytes) < 8  # the kernel counts pages of a thread late, some at a time
