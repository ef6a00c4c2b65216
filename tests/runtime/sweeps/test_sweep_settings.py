"""Settings of a sweep: what is given, what a space recommends, and what a task reports."""

from __future__ import annotations

from typing import Any

import pytest

from rayner.errors import InputError
from rayner.runtime.sweeps.space import Space
from rayner.runtime.sweeps.sweep_settings import objectives, resolve_settings, sweep_settings
from rayner.tasks.registry import parse_recipe


def recipe(task: str = "tagger") -> Any:
    types = [{"name": "PER", "description": "people"}]
    return parse_recipe({"task": task, "corpus": {"train": ["a"], "dev": ["b"]}, "types": types}, "recipe")


def test_what_is_not_given_is_as_the_space_recommends() -> None:
    space = Space("mine", {}, metric="macro_f1", mode="max", scheduler="asha", search="grid")
    plain = resolve_settings(Space("mine", {}), recipe())
    assert (plain.search, plain.scheduler, plain.objectives[0].metric) == ("random", "none", "f1")
    assert (plain.workers, plain.seed) == (recipe().scaling.workers, recipe().seed)
    settings = resolve_settings(space, recipe(), trials=None, grace_period=3)
    assert (settings.search, settings.scheduler, settings.grace_period) == ("grid", "asha", 3)
    assert [(o.metric, o.mode) for o in settings.objectives] == [("macro_f1", "max")]
    given = resolve_settings(space, recipe(), ["f1"], search="random", scheduler="none", workers=0)
    assert (given.search, given.scheduler, given.objectives[0].metric) == ("random", "none", "f1")
    # Several metrics are searched by Optuna, and no scheduler compares by more than one.
    several = resolve_settings(space, recipe(), ["f1", "seconds"])
    assert (several.search, several.scheduler) == ("optuna", "none")
    with pytest.raises(InputError, match="is for the task 'tagger'"):
        resolve_settings(Space("mine", {}, task="tagger", metric="top1"), recipe("recognizer"))


def test_one_metric_is_recommended() -> None:
    metrics: Any = ["f1", "seconds"]
    with pytest.raises(InputError, match=r"space mine: its METRIC is \['f1', 'seconds'\]; one name as a"):
        resolve_settings(Space("mine", {}, metric=metrics), recipe())


@pytest.mark.parametrize("said", [{"scheduler": "hyperband"}, {"search": "bayes"}, {"mode": "maximum"}])
def test_what_a_space_recommends_and_no_sweep_knows_is_told_of_its_file(said: dict[str, str]) -> None:
    ((name, value),) = said.items()
    with pytest.raises(InputError, match=f"space mine: its {name.upper()} is '{value}'; one of "):
        resolve_settings(Space("mine", {}, **said), recipe())


def test_a_metric_that_no_task_reports_names_the_nearest() -> None:
    with pytest.raises(
        InputError, match="the task tagger does not report 'macrof1'; did you mean 'macro_f1'"
    ):
        objectives(["macrof1"], recipe())
    with pytest.raises(InputError, match="mode 'up'"):
        objectives(["f1:up"], recipe())
    found = objectives(["f1", "seconds"], recipe())
    assert [(o.metric, o.mode) for o in found] == [("f1", "max"), ("seconds", "min")]
    # The winner is chosen by the first.
    assert objectives(["seconds", "f1"], recipe()) == found
    with pytest.raises(InputError, match="name f1, too"):
        objectives(["seconds"], recipe())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"trials": 0}, "--trials"),
        ({"folds": 1}, "at least 2"),
        ({"scheduler": "halving", "search": "optuna"}, "proposes them one by one"),
        ({"scheduler": "asha", "objectives": ["f1", "seconds"]}, "compares by one metric"),
    ],
)
def test_settings_that_do_not_go_together(values: dict[str, Any], message: str) -> None:
    values = values | {"objectives": objectives(values.get("objectives", ["f1"]), recipe())}
    with pytest.raises(InputError, match=message):
        sweep_settings(**values)
