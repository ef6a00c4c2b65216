"""Benchmarks end in one line where what they are given is not there, and write what they find."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from benchmarks import new_types, quickstart_results, results, sweep_cost
from benchmarks.command import call_main
from benchmarks.figures import Figure, measured, read_result
from rayner.config.recipe_files import load_types


@pytest.mark.parametrize(
    ("benchmark", "arguments"),
    [
        ("annotate_throughput", ["checkpoint", "no/corpus"]),
        ("context_candidates", ["--novel", "no/corpus"]),
        ("stages", ["no/corpus", "no/corpus"]),
        ("serve_load", ["checkpoint", "--corpus", "no/corpus"]),
    ],
)
def test_what_is_not_there_is_named(
    benchmark: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", [benchmark, *arguments])
    with pytest.raises(SystemExit) as ended:
        call_main(importlib.import_module(f"benchmarks.{benchmark}").main)
    assert ended.value.code == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "no/corpus" in line


def test_every_type_of_crossner_is_described(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYNER_DATA", str(corpora))
    described = {t.name for t in load_types(Path(new_types.__file__).with_name("crossner_types.yaml"))}
    for name in new_types.DOMAINS:
        assert {m.type for d in new_types.read_domain(name, "dev") for m in d.mentions} <= described


def test_a_file_of_recognition_is_of_the_runs_that_are_finished(tmp_path: Path) -> None:
    planned = [results.Run("ncbi", task, seed) for seed in (1, 2) for task in results.TASKS]
    for run in planned[:3]:
        scores = {"f1": 0.8 + run.seed / 100, "precision": 0.9, "recall": 0.75}
        run.out(tmp_path).mkdir()
        # A run of before there was a choice does not say what it computed in.
        told = {"compute_precision": "bfloat16"} if run.seed == 2 else {}
        result = {"metrics": scores, "seconds": 90.0, **told}
        (run.out(tmp_path) / "result.json").write_text(json.dumps(result))
    results.write("ncbi", planned, tmp_path, tmp_path)
    found = read_result(tmp_path / "recognition_ncbi.json")
    recognizer, tagger = found.rows
    assert recognizer["f1"] == Figure(value=81.5, unit="%", deviation=0.7, n=2, headline=True)
    assert tagger["f1"] == Figure(value=81.0, unit="%", n=1, headline=True)
    assert (found.seeds, found.task) == ((1, 2), "recognizer and tagger")
    assert found.precision == "bfloat16 and float32"


def test_new_types_are_told_apart_from_known_ones() -> None:
    scores = {"f1_all": 0.4, "f1_known": 0.5, "f1_new": 0.25, "per_type": {"field": 0.25, "person": 0.5}}
    told = {"held_out": "ai", "learned_from": "domains", "new_types": ["field"]}
    rows = new_types.figures([{**told, **scores, "minutes": 1.0}])
    shown = {row["types"]: row["f1"].value for row in rows if isinstance(row["f1"], Figure)}
    assert shown == {"all": 40.0, "known": 50.0, "new": 25.0, "field": 25.0}


def test_the_quick_start_has_a_table_of_each_part() -> None:
    spans = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 4}
    result = {
        "metrics": {**spans, "per_type": {"Software": spans}, "intervals": {"f1": [0.2, 0.4]}},
        "linking": {
            "top1": 0.5,
            "top3": 1.0,
            "top5": 1.0,
            "mrr": 0.75,
            "accuracy": 0.4,
            "nil_precision": 0.2,
            "nil_recall": 0.1,
            "mentions": 2,
            "intervals": {"top1": [0, 1]},
        },
        "typing": {"accuracy": 0.7, "macro_f1": 0.6, "support": 2},
        "seconds": 12.5,
    }
    of_type, whole, typed, linked, seconds = quickstart_results.figures(result)
    assert of_type["f1"] == Figure(value=33.3, unit="%")
    assert whole["f1"] == Figure(value=33.3, unit="%", interval=(20.0, 40.0), headline=True)
    assert typed["fine_accuracy"] == Figure(value=70.0, unit="%")
    assert linked["nil_recall"] == Figure(value=10.0, unit="%")
    assert linked["top1"] == Figure(value=50.0, unit="%", interval=(0.0, 100.0), headline=True)
    assert seconds == {"seconds": Figure(value=12.5, unit="s")}


def test_what_is_true_or_false_is_told_in_words() -> None:
    rows = measured([{"made": True, "p50": 1}, {"made": False, "p50": 2}], {"p50": "ms"})
    assert [row["made"] for row in rows] == ["yes", "no"]


def test_the_seeds_of_early_stopping_are_a_series() -> None:
    (row,) = measured([{"scheduler": "asha", "seeds": [0.872, 0.85], "deviation": 0.0156}], sweep_cost.UNITS)
    assert row["seeds"] == Figure(value=(87.2, 85.0), unit="%")
    assert row["deviation"] == Figure(value=1.6, unit="%")
