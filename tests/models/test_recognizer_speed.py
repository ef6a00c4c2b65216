from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import recognizer_speed


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
    assert all(row["peak_mb"] >= 0 for row in rows)
