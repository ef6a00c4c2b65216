"""The best settings, trained once more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rayner.errors import DivergedError
from rayner.recipes import dump_recipe, parse_recipe, with_settings
from rayner.runtime.sweeps import winner
from rayner.runtime.sweeps.settings import objectives, sweep_settings
from rayner.runtime.sweeps.trials import Plan
from tests.runtime.several_workers import tiny_recipe


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(tmp_path)
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")
    settings = sweep_settings(objectives=objectives(["f1", "macro_f1"], recipe), retries=2)
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
    assert trainings.calls == [(1, False), (1001, True)]


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
    assert [fresh for _, fresh in trainings.calls] == [False, False, True]


def test_a_metric_that_dev_has_nothing_for_is_left_out() -> None:
    assert winner._known({"f1": 0.5, "macro_f1": None}, ["f1", "macro_f1"]) == {"f1": 0.5}
