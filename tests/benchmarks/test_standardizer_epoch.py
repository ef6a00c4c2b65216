"""`python -m benchmarks.standardizer_epoch` on a few names."""

from __future__ import annotations

from pathlib import Path

from benchmarks.standardizer_epoch import measure, write_strings


def test_each_phase_is_measured(tmp_path: Path) -> None:
    write_strings(tmp_path, 120, 8)
    found = measure(tmp_path, 4)
    assert [row["phase"] for row in found["rows"]] == [
        *("names", "examples", "n-grams", "neighbours", "plan"),
        *("fit, first", "answers, first", "fit, next", "answers, next"),
    ]
    assert all(row["seconds"] > 0 for row in found["rows"])
