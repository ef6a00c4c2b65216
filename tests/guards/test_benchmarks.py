"""Benchmarks end in one line where what they are given is not there, and find what they bring along."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from benchmarks import new_types
from benchmarks.command import call_main
from rayner.recipes import load_types


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
