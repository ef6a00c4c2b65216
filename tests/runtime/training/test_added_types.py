"""The training of types that are added to a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import RecipeError
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.reports.report import report
from rayner.runtime.training.train import train
from rayner.tasks.registry import adding_types, parse_recipe
from tests.killed_training import killed_at
from tests.runtime.training.several_workers import assert_two_equal_one, tiny_examples, tiny_recipe
from tests.runtime.training.toy_task import largest_difference, weights_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the checkpoint of a recognizer of PER."""
    folder = tmp_path_factory.mktemp("added")
    values = tiny_recipe(folder / "corpus", "recognizer", epochs=1)
    values["types"] = [{"name": "PER", "description": "people by name"}]
    train(parse_recipe(values, "recipe"), folder / "base")
    return folder


def recipe(folder: Path, **training: Any) -> Any:
    values = tiny_recipe(folder / "corpus", "recognizer", **{"epochs": 1, **training})
    values["types"] = [{"name": "LOC", "description": "places on a map"}]
    return adding_types(parse_recipe(values, "recipe"), folder / "base")


def test_two_workers_equal_one(folder: Path) -> None:
    # Some steps hold a single window: of two workers, one has none.
    values = recipe(folder, tokens_per_step=12).model_dump(mode="json")
    assert_two_equal_one(folder / "workers", values, tiny_examples(values, folder / "cache"))


def test_killed_and_resumed_equals_undisturbed(folder: Path) -> None:
    described = recipe(folder, checkpoint_every=8, epochs=2)
    train(described, folder / "whole")

    with killed_at(25):
        train(described, folder / "cut")
    train(described, folder / "cut")
    for part in ("last", "best"):
        one, other = (weights_of(folder / run / part) for run in ("whole", "cut"))
        assert largest_difference(one, other) == 0.0
    before, after = weights_of(folder / "base" / "best"), weights_of(folder / "whole" / "best")
    assert largest_difference(before, {name: after[name] for name in before}) == 0.0
    with pytest.raises(RecipeError, match=r"changed: training\.epochs"):
        train(
            described.model_copy(update={"training": described.training.model_copy(update={"epochs": 3})}),
            folder / "whole",
        )


@pytest.mark.usefixtures("undrawn")
def test_a_run_tells_what_flat_decoding_changes(folder: Path) -> None:
    result = train(recipe(folder), folder / "told")
    found = result["metrics"]["flat_decoding"]
    assert found["per_type"].keys() == {"PER"}
    assert found["after"] == found["before"] - found["lost"] + found["gained"]
    assert json.loads((folder / "told/best/metrics.json").read_text())["flat_decoding"] == found
    assert "What added types change" in report(folder / "told").read_text()
    corpus = folder / "corpus" / "corpus.jsonl"
    of_base = evaluate(folder / "base" / "best", [corpus], workers=0)
    of_both = evaluate(folder / "told" / "best", [corpus], workers=0)
    assert found["f1_before"] == pytest.approx(of_base["f1"])
    assert found["f1_after"] == pytest.approx(of_both["per_type"]["PER"]["f1"])
