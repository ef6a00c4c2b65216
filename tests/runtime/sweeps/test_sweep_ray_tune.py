"""How many trials there are, how many run concurrently on clusters of many shapes, how long they are."""

from __future__ import annotations

import logging
import os
from types import SimpleNamespace
from typing import Any

import pytest
from ray import tune

from rayner.data import warned_once
from rayner.errors import InputError
from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.ray_tune import TrialResources, most_epochs, trial_resources
from rayner.runtime.sweeps.space import Space
from rayner.runtime.sweeps.sweep import _search
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.sweeps.trainable import trainable_of
from rayner.tasks.registry import parse_recipe

HEAD: dict[str, float] = {"CPU": 0}
CPUS: dict[str, float] = {"CPU": 5}
GPUS: dict[str, float] = {"CPU": 8, "GPU": 2}


def recipe(**scaling: Any) -> Any:
    values = {"corpus": {"train": ["a"]}, "types": [{"name": "PER", "description": "people"}]}
    return parse_recipe({"task": "recognizer", "scaling": scaling, **values}, "recipe")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch):
    """Put these nodes in the place of the cluster's."""

    def of(*nodes: dict[str, float]) -> None:
        known = [{"Alive": True, "Resources": node} for node in nodes]
        monkeypatch.setattr("rayner.runtime.sweeps.ray_tune.ensure_ray", lambda: None)
        monkeypatch.setattr("ray.nodes", lambda: [*known, {"Alive": False, "Resources": {"CPU": 64}}])

    return of


@pytest.mark.parametrize(
    ("nodes", "scaling", "workers", "resources"),
    [
        ((CPUS,), {}, 0, TrialResources({"CPU": 1}, 5)),
        ((HEAD, CPUS, CPUS), {"cpus_per_worker": 2}, 0, TrialResources({"CPU": 2}, 4)),
        ((CPUS, GPUS), {"cpus_per_worker": 1}, 0, TrialResources({"CPU": 1, "GPU": 1}, 2)),
        ((CPUS, GPUS), {"gpus_per_worker": 2}, 0, TrialResources({"CPU": 1, "GPU": 2}, 1)),
        (
            (CPUS | {"memory": 5 * 2**30},),
            {"memory_per_worker": 2},
            0,
            TrialResources({"CPU": 1, "memory": 2 * 2**30}, 2),
        ),
        ((CPUS,), {}, 2, TrialResources({"memory": 1}, 2)),
        ((CPUS, CPUS), {"cpus_per_worker": 3}, 2, TrialResources({"memory": 1}, 1)),
    ],
)
def test_as_many_run_concurrently_as_fit_on_the_nodes(
    cluster: Any,
    nodes: tuple[dict[str, float], ...],
    scaling: dict[str, Any],
    workers: int,
    resources: TrialResources,
) -> None:
    cluster(*nodes)
    assert trial_resources(recipe(**scaling), workers) == resources


@pytest.mark.parametrize(
    ("scaling", "workers", "told"),
    [({}, 2, True), ({"gpus_per_worker": 1}, 2, False), ({}, 0, False)],
)
def test_trials_whose_workers_leave_gpus_idle_are_told(
    cluster: Any, caplog: pytest.LogCaptureFixture, scaling: dict[str, Any], workers: int, told: bool
) -> None:
    cluster(CPUS, GPUS)
    trial_resources(recipe(**scaling), workers)
    assert ("set scaling.gpus_per_worker: 1" in caplog.text) == told


def test_a_cluster_without_resources_says_how_it_may_grow(cluster: Any) -> None:
    cluster(HEAD)
    with pytest.raises(InputError, match=r"needs 2 x 1 CPU on one node each.*are 0 CPUs; .*--max-concurrent"):
        trial_resources(recipe(), 2)


def test_a_cluster_that_grows_is_asked_for_as_many_trials_as_are_wanted(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster(HEAD)
    assert trial_resources(recipe(), 0, max_concurrent=3) == TrialResources({"CPU": 1}, 3)
    assert "resources for 0 of 3 trials" in caplog.text
    cluster(CPUS)
    caplog.clear()
    assert trial_resources(recipe(), 0, max_concurrent=3) == TrialResources({"CPU": 1}, 3)
    assert not caplog.text


@pytest.mark.parametrize(
    ("domain", "epochs"), [(tune.randint(2, 21), 20), (tune.choice([2, 8]), 8), (None, 3)]
)
def test_the_longest_trial_is_that_of_the_space(domain: Any, epochs: int) -> None:
    settings = sweep_settings(objectives=objectives(["f1"], recipe()), folds=2)
    given = recipe().model_copy(update={"training": recipe().training.model_copy(update={"epochs": 3})})
    space = Space("mine", {"training.epochs": domain} if domain is not None else {})
    assert most_epochs(settings, space, given) == 2 * epochs


def test_optuna_is_asked_again_for_what_it_proposed_twice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    proposals = iter([["a", "b", "a"], ["a", "b", "c"], ["c"], ["never"]])
    found: set[str] = set()
    monkeypatch.setattr("rayner.runtime.sweeps.sweep.read_trials", lambda plan: list(found))

    def launch(planned: None) -> None:
        found.update(next(proposals))

    search: Any = _search
    search(None, 4, launch)
    assert found == {"a", "b", "c"}
    assert "3 trials in place of 4: Optuna proposed no others" in caplog.text
    caplog.clear()
    # Trials that a kill cut short continue, though there are as many as are asked for.
    search(None, 3, launch)
    assert found == {"a", "b", "c", "never"}
    assert not caplog.text


def test_a_trial_does_not_repeat_what_the_driver_said_of_the_data(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("rayner.test")

    def another_process() -> None:
        monkeypatch.setattr(warned_once, "_said", set())

    def trains(*_: Any) -> None:
        for message in ("train: 1 item left out", "train: 2 items left out"):
            warned_once.warn_once(log, message)

    monkeypatch.setattr("rayner.runtime.sweeps.trainable.run_trial", trains)
    session = SimpleNamespace(report=lambda _: None)
    monkeypatch.setattr("ray.tune.trainable.function_trainable.get_session", lambda: session)
    another_process()
    warned_once.warn_once(log, "train: 1 item left out")
    trial: Any = trainable_of(plan)
    another_process()
    trial._trainable_func(None, {})
    said = [record.getMessage() for record in caplog.records]
    assert said == ["train: 1 item left out", "train: 2 items left out"]


def test_a_trial_knows_the_server_that_the_driver_tracks_at(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        "rayner.runtime.sweeps.trainable.run_trial",
        lambda *_: seen.append(os.environ["MLFLOW_TRACKING_URI"]),
    )
    session = SimpleNamespace(report=lambda _: None)
    monkeypatch.setattr("ray.tune.trainable.function_trainable.get_session", lambda: session)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://ada:secret@host")
    trial: Any = trainable_of(plan)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    trial._trainable_func(None, {})
    assert seen == ["https://ada:secret@host"]
