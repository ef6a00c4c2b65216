"""Predictors that are kept over requests."""

from __future__ import annotations

from typing import Any

from rayner.serving.predictors import PredictorCache


def test_those_that_were_asked_for_last_are_kept() -> None:
    def make(key: str) -> Any:
        return key.upper()

    kept = PredictorCache[str](make, 2)
    assert [kept.make(key) for key in "ab"] == ["A", "B"]
    assert kept.get("a") == "A"
    assert kept.make("c") == "C"
    assert [kept.get(key) for key in "abc"] == ["A", None, "C"]
