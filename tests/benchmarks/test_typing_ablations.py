"""What `python -m benchmarks.typing_ablations` sets, and what its rows are over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import typing_ablations
from benchmarks.trainings import RECIPES
from benchmarks.typing_ablations import ABLATIONS
from benchmarks.typing_runs import SCORED
from rayner.tasks.registry import load_recipe


@pytest.mark.parametrize("name", ABLATIONS)
def test_the_first_row_is_what_the_papers_method_sets(name: str) -> None:
    ablation = ABLATIONS[name]
    path = RECIPES / ("chains_litbank.yaml" if ablation.pretrained else "typer_ufet.yaml")
    recipes = [load_recipe(path, ablation.settings(row)) for row in ablation.rows]
    assert len({recipe.model_dump_json() for recipe in recipes}) == len(recipes)
    plain = type(recipes[0]).model_validate({"task": recipes[0].task, "corpus": {"train": ["a"]}})
    for setting, value in zip(ablation.columns.values(), ablation.rows[0], strict=True):
        part, key = setting.split(".")
        assert getattr(getattr(plain, part), key) == value


def test_gains_are_over_the_first_row(tmp_path: Path) -> None:
    gold = [[["person"], ["place"]], [["person"], ["place"]]]
    worse = [[["place"], ["person"]], [["person"], ["place"]]]
    for row, found in zip(ABLATIONS["pretraining"].rows, (gold, worse), strict=False):
        out = tmp_path / "pretraining" / "_".join(row) / "typer_1"
        out.mkdir(parents=True)
        (out / SCORED).write_text(json.dumps({"gold": gold, "found": found}))
    whole, half = typing_ablations.rows("pretraining", [1], tmp_path)
    assert (whole["negatives"], whole["masked"], whole["macro_f1"]) == ("other stories", "head", 1.0)
    assert (half["masked"], half["macro_f1"], half["gain"]) == ("span", 0.5, -0.5)
    assert half["gain_interval"] == [-1.0, 0.0]
    assert "gain" not in whole
