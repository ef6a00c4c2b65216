from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import precision_table, recognizer_speed, type_throughput, typer_speed
from benchmarks.meter import Meter
from rayner.models.encoder import load_encoder


@pytest.fixture(scope="module", autouse=True)
def _rest_is_no_garbage() -> None:
    """Each measurement of memory looks for garbage first: not in what other tests imported."""
    gc.collect()
    gc.freeze()


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


def test_the_floor_is_of_float32_whatever_is_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = "--encoder random:16x1 --types 1 --tokens 32 --windows 2 --rounds 1 --precision bfloat16"
    monkeypatch.setattr("sys.argv", ["recognizer_speed", *small.split(), "--out", str(tmp_path / "s.json")])
    seen = {}

    def interleaved(variants: Any, rounds: int) -> Any:
        seen.update({v.name: v.meter._precision for v in variants})
        return ({v.name: 1.0 for v in variants},) * 2

    monkeypatch.setattr(recognizer_speed, "interleave", interleaved)
    recognizer_speed.main()
    assert seen.pop("floor") == torch.float32
    assert set(seen.values()) == {torch.bfloat16}


def test_throughput_over_types_has_a_row_for_each_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = "--encoder random:16x1 --types 1 70 --tokens 32 --windows 2 --rounds 1 --json"
    monkeypatch.setattr("sys.argv", ["type_throughput", *small.split(), "--out", str(tmp_path / "t.json")])
    monkeypatch.setattr(type_throughput, "MOST_IN_PLAIN_FORM", 1)
    type_throughput.main()
    one, many = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert one["plain_over_floor"] > 0
    assert "plain_over_floor" not in many
    assert 0 < many["starts_scored"] < 1


def test_an_encoder_in_int8_says_nearly_the_same() -> None:
    torch.manual_seed(1)
    encoder = load_encoder("random:64x2").eval()
    ids = torch.randint(1000, 2000, (2, 20))
    with torch.inference_mode():
        exact = encoder(ids, ids > 0)
        encoder.model = precision_table.in_int8(encoder.model)
        rounded = encoder(ids, ids > 0)
    assert 0 < (rounded - exact).abs().max() < 0.1 * exact.abs().max()


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
