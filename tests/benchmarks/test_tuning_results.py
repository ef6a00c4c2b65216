"""The tables and files of `python -m benchmarks.tuning_results`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from benchmarks import tuning_results
from benchmarks.figures import read_result
from benchmarks.results_page import table
from benchmarks.tuning_figures import FIGURES, Figure
from benchmarks.tuning_results import conditions, figures, rows, write
from rayner.cli.app import app
from rayner.runtime.sweeps.plan import plan_of
from rayner.runtime.sweeps.sampling import grid
from rayner.runtime.sweeps.space import check_space, load_space
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.sweeps.trials import write_json, write_outcome
from rayner.tasks.registry import load_recipe, parse_recipe
from tests.runtime.sweeps.written_trials import EPOCHS, write_trial
from tests.runtime.training.several_workers import tiny_recipe


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Figures of which one was searched in part: eight trials finished and sixteen were stopped early."""
    figures = {"rates": Figure("tagger_tiny.yaml", ("training.epochs=4",))}
    figures["gain"] = Figure("tagger_tiny.yaml", (), found=("rates",), folds=2)
    monkeypatch.setattr(tuning_results, "FIGURES", figures)
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger", epochs=EPOCHS), "recipe")
    settings = sweep_settings(objectives=objectives(["f1"], recipe), scheduler="asha")
    nature = {"space": {}, "recipe": recipe.model_dump(mode="json"), "settings": settings.model_dump()}
    write_json(tmp_path / "rates" / "sweep.json", nature)
    plan = plan_of(tmp_path / "rates")
    for number in range(24):
        stopped = number >= 8
        chosen = {"training.learning_rate": 10.0 ** -(number % 3), "training.warmup": number / 100}
        chosen["model.dropout"] = 0.1
        scores = [0.5 + number / 100] * (1 if stopped else EPOCHS)
        write_outcome(write_trial(plan, number, chosen, [scores]), "stopped" if stopped else "finished")
    return tmp_path


def test_a_table_says_what_was_cut(runs: Path) -> None:
    text = "\n".join(table(figures("rates", runs))) + conditions("rates", runs)
    assert "| training.learning_rate | 0.01 | 73.0 | 62.5 | 2 of 8 |" in text
    assert "| 0.1 | 0.07 | 57.0 | 57.0, 57.0, 57.0, 57.0 | finished |" in text
    assert "model.dropout 0.1, training.epochs 4." in text
    assert "8 of 24 trials went through 4 epochs; ASHA stopped 16, the first after 1, and so cut 50 %" in text
    assert "the sweep is not over" in text


def test_a_gain_is_over_the_seeds_that_have_all_folds(runs: Path) -> None:
    assert rows("gain", runs) == []
    write_json(runs / "rates" / "result.json", {"settings": {"training.learning_rate": 0.1}})
    for way, seed, folds in (("recipe", 11, 2), ("found", 11, 2), ("found", 12, 2), ("found", 13, 1)):
        for fold in range(folds):
            result = {"metrics": {"f1": (seed + 10 * fold) / 100}, "seconds": 30.0}
            write_json(runs / "gain" / way / f"fold{fold}-seed{seed}" / "result.json", result)
    recipe, found = rows("gain", runs)
    assert (recipe["f1"], recipe["seeds"], recipe["f1_deviation"]) == (pytest.approx(0.16), 1, None)
    assert (found["f1"], found["seeds"]) == (pytest.approx(0.165), 2)
    (text,) = table(figures("gain", runs))
    assert "| training.learning_rate 0.1 | 16.5 ± 0.7 | 2 |" in text


def test_a_file_says_what_was_cut_and_that_no_one_noted_where(runs: Path, tmp_path: Path) -> None:
    write("rates", runs, tmp_path / "results")
    found = read_result(tmp_path / "results" / "tuning_rates.json")
    assert "ASHA stopped 16" in found.conditions
    assert (found.commit, found.hardware.cpu) == ("not recorded", "not recorded")
    assert found.rows == figures("rates", runs)


@pytest.mark.parametrize("name", FIGURES)
def test_our_figures_fit_our_recipes(root: Path, name: str) -> None:
    figure = FIGURES[name]
    recipe: Any = load_recipe(root / figure.recipe, figure.changes)
    assert recipe.training.epochs <= 20
    assert set(figure.found) <= FIGURES.keys()
    if figure.space:
        place, colon, function = figure.space.partition(":")
        space = load_space(f"{root / place}{colon}{function}")
        command: Any = get_command(app)
        assert command.commands["tune"].make_context("tune", [figure.space, figure.recipe, *figure.options])
        check_space(space, recipe, cut="--folds" in figure.options)
        assert space.search is None or grid(space)


def test_a_trial_of_folds_has_their_mean_after_each_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning_results, "FIGURES", {"folds": Figure("tagger_tiny.yaml", ())})
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger", epochs=EPOCHS), "recipe")
    settings = sweep_settings(objectives=objectives(["f1"], recipe), folds=2)
    nature = {"space": {}, "recipe": recipe.model_dump(mode="json"), "settings": settings.model_dump()}
    write_json(tmp_path / "folds" / "sweep.json", nature)
    scores = [[0.5, 0.6, 0.7, 0.8], [0.3, 0.2, 0.9]]
    write_trial(plan_of(tmp_path / "folds"), 0, {"training.learning_rate": 0.1}, scores)
    (row,) = rows("folds", tmp_path)
    assert row["by_epoch"] == pytest.approx([0.4, 0.4, 0.8])
