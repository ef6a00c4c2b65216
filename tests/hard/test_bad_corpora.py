"""Corpora that cannot teach what a recipe asks for: a clear error, and what is left out is counted."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rayner.config import BaseRecipe
from rayner.errors import CorpusError, RecipeError
from rayner.runtime.training.example_building import build_examples
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe, train_task

TEXT = "Zoë Übel wrote to Ada Lovelace in Zürich; Ada answered from London."


def _mentions(*parts: tuple[str, str]) -> list[Mapping[str, Any]]:
    return [{"start": TEXT.index(s), "end": TEXT.index(s) + len(s), "type": kind} for s, kind in parts]


def _recipe(folder: Path, documents: Sequence[Sequence[Mapping[str, Any]]], **changes: Any) -> BaseRecipe:
    rows = [{"document_id": f"d{i}", "text": TEXT, "mentions": list(m)} for i, m in enumerate(documents)]
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "task": "recognizer",
        "encoder": "random:16x1",
        "corpus": {"train": [str(path)]},
        "types": [{"name": "PER", "description": "people"}],
        "training": {"epochs": 1},
        "windows": {"length": 64, "overlap": 16},
        "model": {"max_span_width": 8},
    }
    return parse_recipe({**values, **changes}, "test")


@pytest.mark.parametrize("task", ["recognizer", "tagger"])
@pytest.mark.parametrize(
    ("mentions", "there"),
    [([], "none at all"), ([("London", "LOC"), ("Zürich", "LOC")], r"LOC \(2\)")],
)
def test_a_corpus_without_a_mention_of_the_types_is_refused(
    tmp_path: Path, task: str, mentions: list[tuple[str, str]], there: str
) -> None:
    changes = {"task": task} | ({"model": {}} if task == "tagger" else {})
    recipe = _recipe(tmp_path, [_mentions(*mentions), []], **changes)
    with pytest.raises(CorpusError, match=rf"no mention of PER; .*{there}") as error:
        train(recipe, tmp_path / "run")
    assert error.value.exit_status == 2
    assert "types" in error.value.hint


def test_types_that_the_recipe_lacks_are_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known, lacking = ("Ada Lovelace", "PER"), ("London", "LOC")
    recipe = _recipe(tmp_path, [_mentions(known, lacking), _mentions(lacking), _mentions(known)])
    with caplog.at_level(logging.WARNING):
        examples = build_examples(train_task(recipe), tmp_path / "cache")
    assert len(examples) == 3
    assert examples.manifest["rejected"] == 2
    assert "2 items or mentions" in caplog.text
    rows = [json.loads(line) for line in (examples.folder / "rejects.jsonl").read_text().splitlines()]
    start = TEXT.index("London")
    assert [row["where"] for row in rows] == [f"{d}: LOC at {start}-{start + 6}" for d in ("d0", "d1")]
    assert {row["what"] for row in rows} == {"the recipe has no such type"}


def test_offsets_in_bytes_are_named_where_they_miss_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_bytes = [
        {**m, "start": len(TEXT[: m["start"]].encode()), "end": len(TEXT[: m["end"]].encode())}
        for m in _mentions(("Ada Lovelace", "PER"), ("London", "PER"), ("Zürich", "PER"))
    ]
    recipe = _recipe(tmp_path, [in_bytes])
    with caplog.at_level(logging.WARNING):
        examples = build_examples(train_task(recipe), tmp_path / "cache")
    rows = [json.loads(line) for line in (examples.folder / "rejects.jsonl").read_text().splitlines()]
    assert [row["what"] for row in rows] == ["moved outward to whole words"] * 2
    assert "train.jsonl:1: mention [63, 69) outside the text" in caplog.text


def test_mentions_that_the_text_cannot_hold_are_said_to_be_unread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beyond = {"start": 60, "end": 600, "type": "PER"}
    recipe = _recipe(tmp_path, [[*_mentions(("Ada Lovelace", "PER")), beyond]])
    with caplog.at_level(logging.WARNING):
        list(train_task(recipe).items("train"))
        list(train_task(recipe).items("train"))
    (message,) = [r.getMessage() for r in caplog.records if "cannot be read" in r.getMessage()]
    assert "1 document or mention" in message
    assert "train.jsonl:1: mention [60, 600) outside the text" in message


def test_a_document_of_nothing_is_no_obstacle(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, [_mentions(("Ada Lovelace", "PER"))])
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write(json.dumps({"document_id": "e0", "text": ""}) + "\n")
        nothing = {
            "document_id": "e1",
            "text": " \u200b",
            "mentions": [{"start": 1, "end": 2, "type": "PER"}],
        }
        file.write(json.dumps(nothing) + "\n")
    examples = build_examples(train_task(recipe), tmp_path / "cache")
    assert len(examples) == 1
    (row,) = [json.loads(line) for line in (examples.folder / "rejects.jsonl").read_text().splitlines()]
    assert row["where"] == "e1"
    assert "no word" in row["what"]


def test_a_corpus_that_is_not_there_is_an_error_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAYNER_DATA", raising=False)
    recipe = _recipe(tmp_path, [[]], corpus={"train": ["$RAYNER_DATA/no such corpus"]})
    with pytest.raises(
        RecipeError,
        match="the environment variable RAYNER_DATA is not set; export RAYNER_DATA=FOLDER",
    ):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run" / "best").exists()


def test_windows_longer_than_the_encoder_are_refused_before_examples_are_made(tmp_path: Path) -> None:
    windows = {"length": 600, "overlap": 100}
    recipe = _recipe(tmp_path, [_mentions(("Ada Lovelace", "PER"))], windows=windows)
    with pytest.raises(RecipeError, match=r"windows\.length: 600 sub-words do not fit the encoder"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / ".examples").exists()
