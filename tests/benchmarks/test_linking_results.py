"""What `python -m benchmarks.linking_results` takes for finished."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import linking_results, linking_runs
from benchmarks.figures import Figure, here, keep_origin, read_result
from benchmarks.linking_results import Run, settings_of

RUN = Run("esappmod", 0, 1)
SCORES = {"top1": 0.5, "top3": 0.6, "top5": 0.7, "mrr": 0.6}
FIGURES = {
    "trained": {name: dict.fromkeys(linking_results.WAYS, SCORES) for name in ("names", "names and mentions")}
}


def table(
    runs: Path, figures: object, monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[object, Path]:
    """The exit status of the table of one run that left `figures`, and its folder."""
    RUN.out(runs).mkdir()
    (RUN.out(runs) / "figures.json").write_text(json.dumps(figures))
    command = ["linking_results", "--runs", str(runs), "--only", RUN.corpus, "--folds", "0", "--table"]
    monkeypatch.setattr(sys, "argv", [*command, *arguments])
    with pytest.raises(SystemExit) as exited:
        linking_results.main()
    return exited.value.code, RUN.out(runs)


def recorded(*changes: str) -> dict[str, object]:
    return {**FIGURES, "settings": settings_of(RUN, changes).model_dump(mode="json")}


def test_a_run_with_other_settings_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, folder = table(tmp_path, recorded("loss.margin=0.123", "seed=1"), monkeypatch)
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert printed.err.startswith(f"{folder}: was trained with another loss.margin; remove it")
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("changes", [(), ("loss.margin=0.123",)])
def test_a_run_with_these_settings_is_taken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: tuple[str, ...],
) -> None:
    set_ = [word for change in changes for word in ("--set", change)]
    assert table(tmp_path, recorded(*changes), monkeypatch, *set_)[0] == 0
    assert "50.0" in capsys.readouterr().out


def test_a_run_that_does_not_say_its_settings_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table(tmp_path, FIGURES, monkeypatch, "--set", "loss.margin=0.123")[0] == 0
    assert "50.0" in capsys.readouterr().out


def test_a_file_has_the_mean_and_deviation_of_what_is_finished(tmp_path: Path) -> None:
    planned = [Run("ncbi", fold, seed) for seed in (1, 2, 3) for fold in (0, 1)]
    for run in planned[:4]:
        scores = {**SCORES, "top1": 0.4 + run.seed / 10 + run.fold / 5}
        ways = dict.fromkeys(linking_results.WAYS, scores)
        run.out(tmp_path).mkdir()
        figures = {"trained": dict.fromkeys(("names", "names and mentions"), ways)}
        (run.out(tmp_path) / "figures.json").write_text(json.dumps(figures))
    for folder in (planned[0].out(tmp_path), planned[0].training(tmp_path)):
        keep_origin(folder)
    linking_results.write("ncbi", planned, tmp_path, tmp_path)
    found = read_result(tmp_path / "linking_ncbi.json")
    assert found.seeds == (1, 2)
    row = next(row for row in found.rows if (row["index"], row["by"]) == ("names", "both"))
    assert (row["folds"], row["seeds"]) == (2, 2)
    assert row["top1"] == Figure(value=65.0, unit="%", deviation=7.1, n=4, headline=True)
    assert row["mrr"] == Figure(value=60.0, unit="%", n=4)
    assert row["commits"] == f"{here().commit}, not recorded"


def of_ranks(texts: str, *encoders: tuple[str, list[int]]) -> str:
    figures: dict[str, object] = {"asked": list(texts)}
    for encoder, ranks in encoders:
        ways = {way: {**SCORES, "ranks": ranks} for way in linking_results.WAYS}
        figures[encoder] = dict.fromkeys(linking_runs.INDEXES, ways)
    return json.dumps(figures)


def test_gains_are_paired_mention_by_mention(tmp_path: Path) -> None:
    planned = [Run("ncbi", fold, seed) for seed in (1, 2) for fold in (0, 1)]
    for run, texts in zip(planned, ("abcd", "ef") * 2, strict=True):
        run.out(tmp_path).mkdir()
        trained = {1: {0: [1, 1, 2, 0], 1: [1, 1]}, 2: {0: [1, 2, 1, 0], 1: [1, 1]}}[run.seed][run.fold]
        untrained = ("untrained", {0: [1, 2, 2, 1], 1: [1, 0]}[run.fold])
        encoders = [("trained", trained), *([untrained] if run.seed == 1 else [])]
        (run.out(tmp_path) / "figures.json").write_text(of_ranks(texts, *encoders))
    own, other = (
        {row["against"]: row for row in linking_results.gains(planned, tmp_path, tmp_path)}[name]
        for name in ("untrained", tmp_path.name)
    )
    # a: 0, b: a half, c: a half, d: -1, e: 0, f: 1.
    assert (own["mentions"], own["gain"]) == (6, pytest.approx(1 / 6))
    low, high = own["gain_interval"]
    assert -1 <= low < 1 / 6 < high <= 1
    assert (other["gain"], other["gain_interval"]) == (0, (0, 0))
    linking_results.write("ncbi", planned, tmp_path, tmp_path)
    row = read_result(tmp_path / "linking_ncbi.json").rows[-1]
    assert isinstance(row["gain"], Figure)
    assert row["gain"].interval == (pytest.approx(100 * low, abs=0.1), pytest.approx(100 * high, abs=0.1))
