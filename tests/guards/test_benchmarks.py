"""Benchmarks end in one line where what they are given is not there."""

from __future__ import annotations

import importlib
import sys

import pytest

from benchmarks.command import call_main


@pytest.mark.parametrize(
    ("benchmark", "arguments"),
    [
        ("annotate_throughput", ["checkpoint", "no/corpus"]),
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
