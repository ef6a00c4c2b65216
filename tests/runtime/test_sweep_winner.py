"""The best settings, trained once more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rayner.errors import DivergedError
from rayner.recipes import dump_recipe, parse_recipe, with_settings
from rayner.runtime.sweeps import winner
from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.ray_tune import TrialResources
from rayner.runtime.sweeps.settings import objectives, sweep_settings
from tests.runtime.several_workers import tiny_recipe


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(tmp_path)
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")
    settings = sweep_settings(objectives=objectives(["f1", "macro_f1"], recipe), max_failures=2)
    return Plan(recipe, settings, tmp_path, tmp_path, {"seed1": {}}, tmp_path)


class Trainings:
    """What stands for `train`: its loss is no number for some seeds."""

    def __init__(self, *bad: int) -> None:
        self.bad, self.calls = bad, []

    def __call__(self, recipe: Any, out: Path, fresh: bool, **_: Any) -> dict[str, Any]:
        self.calls.append((recipe.seed, fresh))
        out.mkdir(exist_ok=True)
        (out / "recipe.yaml").write_text(dump_recipe(recipe))
        if recipe.seed in self.bad:
            raise DivergedError("step 7", "the loss is no finite number", "start over with --fresh")
        return {"checkpoint": str(out / "best"), "metrics": {"f1": 0.5, "macro_f1": None}, "seconds": 1.0}


def test_a_loss_that_is_no_number_begins_again_with_another_seed(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = Trainings(1)
    monkeypatch.setattr(winner, "train", trainings)
    assert winner._train(plan, plan.recipe)["seed"] == 1001
    assert winner._train(plan, plan.recipe)["seed"] == 1001
    # The second launch goes on with what the first one left.
    assert trainings.calls == [(1, True), (1001, True), (1001, False)]


def test_a_loss_that_is_never_a_number_is_recorded(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winner, "train", Trainings(1, 1001, 2001))
    found = winner._train(plan, plan.recipe)
    assert found["checkpoint"] is None
    assert found["error"] == "step 7: the loss is no finite number"


def test_only_a_run_of_other_settings_is_started_over(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = Trainings()
    monkeypatch.setattr(winner, "train", trainings)
    for changes in ({}, {"scaling.threads_per_worker": 2}, {"training.learning_rate": 0.5}):
        winner._train(plan, with_settings(plan.recipe, changes, "best trial"))
    (plan.out / "winner/recipe.yaml").write_text("")
    winner._train(plan, plan.recipe)
    assert [fresh for _, fresh in trainings.calls] == [True, False, True, True]


def test_a_metric_that_dev_has_nothing_for_is_left_out() -> None:
    assert winner._known({"f1": 0.5, "macro_f1": None}, ["f1", "macro_f1"]) == {"f1": 0.5}


@pytest.mark.parametrize(
    ("nodes", "here"),
    [
        ([{"CPU": 2, "GPU": 1}], True),
        ([{"CPU": 0}], False),
        ([{"CPU": 4}], False),
        ([{"CPU": 2, "GPU": 1}, {"CPU": 2, "GPU": 1}], False),
    ],
)
def test_it_trains_beside_the_driver_only_where_that_is_all_there_is(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, nodes: list[dict[str, float]], here: bool
) -> None:
    asked: list[dict[str, float]] = []

    class Remote:
        def options(self, **given: float) -> Any:
            asked.append(given)
            return SimpleNamespace(remote=lambda *_: {})

    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True, "Resources": node} for node in nodes])
    monkeypatch.setattr("ray.remote", lambda function: Remote())
    monkeypatch.setattr("ray.get", lambda reply: reply)
    monkeypatch.setattr(winner, "train", Trainings())
    winner._train_on_a_node(plan, plan.recipe, TrialResources({"CPU": 1, "GPU": 1}, 1))
    assert asked == ([] if here else [{"num_cpus": 1, "num_gpus": 1}])
