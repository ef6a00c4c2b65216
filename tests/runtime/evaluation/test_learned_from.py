"""An evaluation says of what it scores that it was learned from."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.evaluation.learned_from import learned_from
from tests.runtime.evaluation.toy_checkpoint import checkpoint_in


def recipe(train: Any, name: str = "corpus") -> dict[str, Any]:
    return {"task": "some", name: SimpleNamespace(train=train), "training": SimpleNamespace(train=True)}


@pytest.mark.parametrize(
    ("train", "given", "known"),
    [
        ("data/train.jsonl", "data/train.jsonl", True),
        ("$PLACE/train.jsonl", "data", True),
        ("data", "data/dev.jsonl", True),
        ("s3://bucket/data", "s3://bucket/data/dev.jsonl", True),
        ("data/train.jsonl", "data/train.jsonl2", False),
        ("data/train.jsonl", "data/dev.jsonl", False),
        ("~nobody-of-this-name/data", "data", False),
        ("s3://bucket/data", "s3://bucket/other", False),
    ],
)
def test_paths_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: str, given: str, known: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACE", str(tmp_path / "data"))
    recipes = [recipe(("elsewhere", train), name).items() for name in ("corpus", "corpus", "mentions")]
    found = learned_from(recipes, (), [Path(given)])
    said = "or holds a part of it: if these are the same files, the figures are too high"
    names = ("corpus", "mentions") if known else ()
    assert found == [f"{given}: is in {name}.train of the recipe, {said}" for name in names]
    (line,) = learned_from([], [Path("data")], [Path("data/dev.jsonl")])
    assert "is in the support" in line


def test_an_evaluation_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    row = {"document_id": "d", "text": "one", "mentions": [{"start": 0, "end": 3, "type": "A"}]}
    for name in ("nowhere", "other"):
        Path(name).write_text(json.dumps(row))
    checkpoint = checkpoint_in(tmp_path, bias=0.0)
    with caplog.at_level(logging.WARNING):
        evaluate(checkpoint, Path("other"), format="jsonl", intervals=False)
        assert not caplog.messages
        evaluate(checkpoint, Path("nowhere"), format="jsonl", intervals=False)
    assert [line.split(",")[0] for line in caplog.messages] == ["nowhere: is in corpus.train of the recipe"]
