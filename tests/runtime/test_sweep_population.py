"""Trials of a population, without Ray."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.schedulers import PopulationBasedTraining

from rayner.errors import InputError
from rayner.runtime.sweeps.population import _train, mutations, run_population
from rayner.runtime.sweeps.schedule import Room
from rayner.runtime.sweeps.settings import objectives, sweep_settings
from rayner.runtime.sweeps.space import Space, load_space
from rayner.runtime.sweeps.trials import Plan, Report, read_lines
from rayner.runtime.sweeps.turns import FairPopulation
from rayner.runtime.tracking import MLFLOW_PARENT
from rayner.tasks.registry import load_recipe, parse_recipe
from tests.runtime.several_workers import tiny_recipe


def test_a_trial_whose_change_a_kill_undid_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger", tokens_per_step=400), "recipe")
    settings = sweep_settings(objectives=objectives(["f1"], recipe), scheduler="pbt")
    plan = Plan(recipe, settings, tmp_path, tmp_path / ".examples", {"seed1": {"seed": 1}}, tmp_path, "above")
    folder = tmp_path / "trials" / "one"
    folder.mkdir(parents=True)
    told: list[Report] = []
    monkeypatch.setattr("ray.tune.get_checkpoint", lambda: None)
    monkeypatch.setattr("ray.tune.report", lambda report, checkpoint=None: told.append(report))
    monkeypatch.chdir(tmp_path)

    class Killed(Exception):
        pass

    def kill(report: Report, checkpoint: object = None) -> None:
        raise Killed

    with monkeypatch.context() as context:
        context.setattr("ray.tune.report", kill)
        with pytest.raises(Killed):
            _train(plan, folder, {"training.learning_rate": 1e-2})
    assert (folder / "seed1/last").exists()
    _train(plan, folder, {"training.learning_rate": 1e-3})
    assert load_recipe(folder / "seed1/recipe.yaml").training.learning_rate == 1e-3
    assert [line["step"] for line in read_lines(folder / "schedule.jsonl")] == [0, 0]
    assert told[-1]["epochs"] == recipe.training.epochs
    assert (folder / "seed1" / MLFLOW_PARENT).read_text() == "above"


def test_a_copied_trial_keeps_its_place_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(scheduler: Any, controller: Any, trial: str, other: str) -> None:
        scheduler._trial_state[trial].last_train_time = scheduler._trial_state[other].last_train_time

    monkeypatch.setattr(PopulationBasedTraining, "_exploit", copied)
    population = FairPopulation(metric="f1", mode="max", hyperparam_mutations={"rate": [1, 2]})
    times = {"behind": 7, "waiting": 6, "ahead": 9}
    population._trial_state = {name: SimpleNamespace(last_train_time=time) for name, time in times.items()}
    population._exploit(None, "behind", "waiting")
    assert population._trial_state["behind"].last_train_time == 7
    population._exploit(None, "behind", "ahead")
    assert population._trial_state["behind"].last_train_time == 9


def test_a_listed_setting_changes_to_another_of_the_list(tmp_path: Path) -> None:
    text = 'def space(): return {"training.weight_decay": [0.0, 0.01, 0.1], "loss.kind": ["a", "b"]}'
    (tmp_path / "space.py").write_text(text)
    space = load_space(str(tmp_path / "space.py"))
    population = FairPopulation(
        metric="f1", mode="max", hyperparam_mutations=mutations(space), resample_probability=0
    )
    one: Any = SimpleNamespace(config={"training.weight_decay": 0.01, "loss.kind": "a"})
    for _ in range(20):
        changed, _ = population._get_new_config(one, one)
        assert changed["training.weight_decay"] in (0.0, 0.01, 0.1)
        assert changed["loss.kind"] in ("a", "b")


def test_a_population_of_another_version_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")
    settings = sweep_settings(objectives=objectives(["f1"], recipe), scheduler="pbt")
    plan = Plan(recipe, settings, tmp_path, tmp_path, {"seed1": {"seed": 1}}, tmp_path)

    def restore(*_: Any) -> None:
        raise ModuleNotFoundError("No module named 'rayner.old'")

    monkeypatch.setattr("rayner.runtime.sweeps.kept.bring_back", lambda kept, folder: True)
    monkeypatch.setattr("ray.tune.Tuner.restore", restore)
    with pytest.raises(InputError, match=r"another version of rayner.*--fresh"):
        run_population(plan, Space("mine", {}), Room({"CPU": 1}, 1))
