"""`python -m benchmarks.context_speed` on a novel of a few sentences."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks import context_speed
from benchmarks.figures import read_result


def test_it_compares_the_stages_with_a_loop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "dekker-full-novels").mkdir()
    text = " ".join(f"The whale number {n} saw Ada. It rained on day {n}." for n in range(20))
    with gzip.open(tmp_path / "dekker-full-novels" / "Whales.txt.gz", "wt") as file:
        file.write(text)
    monkeypatch.setenv("RAYNER_DATA", str(tmp_path))
    small = "--novel Whales --sentences 10 --sample 2 --candidates 2 --encoder random:16x1"
    small += " --precisions float32 bfloat16"
    out = tmp_path / "context_speed.json"
    monkeypatch.setattr("sys.argv", ["context_speed", *small.split(), "--out", str(out)])
    context_speed.main()
    ours, in_bfloat16, loop = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert (ours["sentences"], in_bfloat16["sentences"], loop["sentences"]) == (10, 10, 2)
    assert [row["computes in"] for row in (ours, in_bfloat16, loop)] == ["float32", "bfloat16", "float32"]
    for row in (ours, in_bfloat16, loop):
        shares = [row[part] for part in ("retrieval", "ranking", "extraction")]
        assert min(shares) > 0
        assert sum(shares) == pytest.approx(1)
    for row in (ours, in_bfloat16):
        assert row["over_loop"] == pytest.approx(row["sentences_per_second"] / loop["sentences_per_second"])
    assert "40 sentences" in read_result(out).conditions
