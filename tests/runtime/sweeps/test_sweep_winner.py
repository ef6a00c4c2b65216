"""The best settings, trained once more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rayner.config import BaseRecipe
from rayner.config.recipe_files import dump_recipe, with_settings
from rayner.files.whole import write_json
from rayner.runtime.sweeps import winner
from rayner.runtime.sweeps.plan import Plan, run_names
from rayner.runtime.sweeps.ray_tune import TrialResources
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.sweeps.trials import State, Trial, rank_of
from rayner.tasks.base import Output, Progress
from rayner.tasks.registry import load_recipe, parse_recipe
from rayner.tasks.tagger.task import TaggerTask
from tests.runtime.training.several_workers import tiny_recipe
from tests.tasks.chains.small_chains import chains_recipe


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(tmp_path)
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger", tokens_per_step=400), "recipe")
    settings = sweep_settings(objectives=objectives(["f1", "macro_f1"], recipe), max_failures=2)
    return Plan(recipe, settings, tmp_path, tmp_path, {"seed1": {}}, tmp_path)


@pytest.mark.parametrize(
    ("metrics", "scores", "order"),
    [
        (["f1", "macro_f1"], [(0.5, 0.2), (0.5, 0.4), (0.6, 0.1)], [3, 2, 1]),
        (["f1", "seconds"], [(0.5, 9.0), (0.5, 4.0), (0.4, 1.0)], [2, 1, 3]),
        (["f1", "macro_f1"], [(0.5, math.nan), (0.5, 0.1), (math.nan, 0.9)], [2, 1, 3]),
        (["f1:min", "seconds"], [(math.nan, 1.0), (0.5, 4.0), (0.4, 9.0)], [3, 2, 1]),
    ],
)
def test_of_equal_trials_the_best_is_that_of_the_next_objective(
    plan: Plan, metrics: list[str], scores: list[tuple[float, float]], order: list[int]
) -> None:
    settings = plan.settings.model_copy(update={"objectives": objectives(metrics, plan.recipe)})
    plan = replace(plan, settings=settings)
    names = [objective.metric for objective in settings.objectives]

    def trial(number: int, values: Sequence[float], state: State = "finished") -> Trial:
        return Trial(f"t{number}", number, {}, state, None, 0, [dict(zip(names, values, strict=True))], ())

    trials = [trial(number, values) for number, values in enumerate(scores, 1)]
    # Whatever it had when it was stopped.
    trials.append(trial(4, (-1.0, 0.0) if "f1:min" in metrics else (0.9, 0.9), "stopped"))
    ranked = [one.number for one in sorted(trials, key=lambda one: rank_of(one, plan))]
    assert [number for number in ranked if number != 4] == order
    known = [number for number, (first, _) in enumerate(scores, 1) if not math.isnan(first)]
    assert ranked.index(4) == len(known)


def diverge(monkeypatch: pytest.MonkeyPatch, *seeds: int) -> None:
    """Let the loss of trainings with these seeds be no number from the second step on."""
    forward = TaggerTask.forward

    def diverging(task: TaggerTask, model: Any, batch: Any, progress: Progress) -> Any:
        output = forward(task, model, batch, progress)
        bad = task.recipe.seed in seeds and progress.step > 0
        return Output({name: value * torch.nan for name, value in output.sums.items()}) if bad else output

    monkeypatch.setattr(TaggerTask, "forward", diverging)


def weights_written(plan: Plan) -> int:
    return (plan.out / "winner/last/model.safetensors").stat().st_mtime_ns


def test_a_loss_that_is_no_number_begins_again_with_another_seed(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverge(monkeypatch, 1)
    found = winner._train(plan, plan.recipe)
    assert found["seed"] == load_recipe(plan.out / "winner/recipe.yaml").seed == 1001
    assert load_recipe(Path(found["checkpoint"]) / "recipe.yaml").seed == 1001
    assert found["metrics"]["support"] == 60
    # The second launch goes on with what the first one left.
    before = weights_written(plan)
    assert winner._train(plan, plan.recipe) == found
    assert weights_written(plan) == before


def test_after_the_last_seed_comes_the_first(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    last = 2**63 - 1
    recipe = with_settings(plan.recipe, {"seed": last}, "recipe")
    settings = plan.settings.model_copy(update={"seeds": 2})
    assert run_names(recipe, settings) == [(f"seed{last}", 0, last), ("seed0", 0, 0)]
    diverge(monkeypatch, last)
    found = winner._train(replace(plan, recipe=recipe, settings=settings), recipe)
    assert found["seed"] == load_recipe(plan.out / "winner/recipe.yaml").seed == 999
    trained: list[int] = []

    def train(_: Plan, recipe: BaseRecipe, *_rest: object) -> dict[str, Any]:
        trained.append(recipe.seed)
        return {"metrics": {}, "checkpoint": None}

    monkeypatch.setattr(winner, "_train_on_a_node", train)
    again = replace(plan, recipe=recipe, settings=settings.model_copy(update={"workers": 0}))
    corpora, best = SimpleNamespace(rest={}, held_out=None), SimpleNamespace(settings={})
    winner._train_again(again, corpora, best, None)  # type: ignore[arg-type]
    assert trained == [1]


def test_a_loss_that_is_never_a_number_is_recorded(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    diverge(monkeypatch, 1, 1001, 2001)
    found = winner._train(plan, plan.recipe)
    assert (found["checkpoint"], found["seed"], found["metrics"]) == (None, 2001, {})
    assert found["error"] == "step 2: the loss or its gradients are no finite number"


def test_only_a_run_of_other_settings_is_started_over(plan: Plan) -> None:
    written = []
    for changes in ({}, {"scaling.threads_per_worker": 2}, {"training.learning_rate": 2e-3}):
        winner._train(plan, with_settings(plan.recipe, changes, "best trial"))
        written.append(weights_written(plan))
    assert written[0] == written[1] < written[2]
    (plan.out / "winner/recipe.yaml").write_text("")
    winner._train(plan, plan.recipe)
    assert weights_written(plan) > written[2]


def test_a_run_of_a_sweep_that_was_moved_is_that_of_its_settings(plan: Plan, tmp_path: Path) -> None:
    out = tmp_path / "winner"
    out.mkdir()
    write_json(tmp_path / "sweep.json", {"recipe": {}, "settings": {}})
    before, now, other = (
        with_settings(plan.recipe, {"corpus.train": [f"{folder}/corpora/{name}.jsonl"]}, "recipe")
        for folder, name in (("/old", "rest"), (tmp_path, "rest"), (tmp_path, "fold0"))
    )
    (out / "recipe.yaml").write_text(dump_recipe(before))
    assert winner._holds(out, now)
    assert not winner._holds(out, other)


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
    nodes: list[dict[str, float]], here: bool
) -> None:
    assert winner.only_here(nodes, TrialResources({"CPU": 1, "GPU": 1}, 1)) is here


def held_out(
    tmp_path: Path, values: dict[str, Any], metric: str, changes: dict[str, Any]
) -> dict[str, float]:
    """Of a winner with the settings of a recipe, on the part that the changes have as dev."""
    recipe = parse_recipe(values, "recipe")
    settings = sweep_settings(objectives=objectives([metric], recipe))
    plan = Plan(recipe, settings, tmp_path, tmp_path, {"seed1": {}}, tmp_path)
    winner._train(plan, recipe)
    best = Trial("trial-1", 1, {}, "finished", None, 0, (), ())
    return winner._held_out(plan, best, changes, [metric])


def test_a_pretraining_that_answers_nobody_is_scored_on_what_was_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values = chains_recipe(tmp_path / "corpus")
    assert held_out(tmp_path, values, "mrr", {"corpus.dev": values["corpus"]["dev"]})["mrr"] > 0


def test_what_has_nothing_to_answer_with_has_no_score_on_what_was_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values = tiny_recipe(tmp_path / "corpus", "gaussian", tokens_per_step=400)
    dev = values["corpus"].pop("dev")
    assert held_out(tmp_path, values, "f1", {"corpus.dev": dev}) == {}
