"""A sweep in TensorBoard and in MLflow."""

from __future__ import annotations

import math
import re
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import StorageError
from rayner.runtime.sweeps import winner
from rayner.runtime.sweeps.gauges import Gauges, best_scores
from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.sweeps.sweep_tracking import (
    HParams,
    MlflowTrials,
    link_to_trial,
    log_result,
    mlflow_sweep,
)
from rayner.runtime.sweeps.trials import State, Trial
from rayner.runtime.tracking import MLFLOW_PARENT, MLflow
from rayner.tasks.registry import parse_recipe
from tests.runtime.training.several_workers import tiny_recipe
from tests.waiting import wait_for

NAN = math.nan


def trial(state: State, *scores: float) -> Trial:
    reports = [
        {"f1": f1, "epochs": epoch, "steps": epoch, "seconds": 1.0} for epoch, f1 in enumerate(scores, 1)
    ]
    settings = {"training.clip": None, "model.scheme": "BIO"}
    return Trial("scheme=BIO-abc", 3, settings, state, None, 0, reports, [0.5])


def plan_in(folder: Path, parent: str | None = None, **values: Any) -> Plan:
    recipe = parse_recipe(tiny_recipe(folder / "corpus", "tagger") | values, "recipe")
    settings = sweep_settings(objectives=objectives(["f1"], recipe))
    return Plan(recipe, settings, folder, folder, {"seed1": {}}, folder, parent)


def test_tensorboard_has_the_settings_and_curves_of_a_trial_while_it_runs(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def seen() -> tuple[list[tuple[int, float]], set[str]]:
        events = EventAccumulator(str(tmp_path / "tensorboard/scheme=BIO-abc")).Reload()
        scores = events.Scalars("sweep/f1") if "sweep/f1" in events.Tags()["scalars"] else []
        hparams = {name for name in events.summary_metadata if name.startswith("_hparams_")}
        return [(event.step, round(event.value, 3)) for event in scores], hparams

    begun = {"_hparams_/experiment", "_hparams_/session_start_info"}
    hparams = HParams(plan_in(tmp_path))
    hparams.start(trial("pending"))
    assert seen() == ([], begun)
    hparams.update(trial("running", 0.2))
    assert seen() == ([(1, 0.2)], begun)
    # The driver was killed; the next one reads two reports from the trial's folder, and then has a third.
    hparams = HParams(plan_in(tmp_path))
    hparams.start(trial("running", 0.2, 0.4))
    hparams.update(trial("running", 0.2, 0.4, 0.5))
    assert seen() == ([(1, 0.2), (2, 0.4), (3, 0.5)], begun)
    hparams.end(trial("finished", 0.2, 0.4, 0.5))
    assert seen() == ([(1, 0.2), (2, 0.4), (3, 0.5)], begun | {"_hparams_/session_end_info"})


def test_the_best_score_is_that_of_a_trial_that_may_still_run(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    trials = [trial("finished", 0.1, 0.4), trial("running", 0.5), trial("failed", 0.9), trial("pending")]
    trials = [replace(one, name=str(number)) for number, one in enumerate([*trials, trial("finished", NAN)])]
    assert best_scores(trials, plan) == {"f1": 0.5}
    smallest = replace(plan, settings=sweep_settings(objectives=objectives(["f1:min"], plan.recipe)))
    assert best_scores(trials, smallest) == {"f1": 0.4}
    assert best_scores([trial("pending"), trial("failed", 0.9)], plan) == {}


@pytest.mark.faults
@pytest.mark.usefixtures("ray_cluster")
def test_ray_exports_how_far_a_sweep_is(tmp_path: Path) -> None:
    import ray

    gauges = Gauges(plan_in(tmp_path / "mysweep"))
    gauges.start(trial("pending"))
    gauges.end(trial("finished", 0.2, 0.5))
    node = ray.nodes()[0]
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"

    def exported() -> str:
        with urllib.request.urlopen(address, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return "\n".join(line for line in lines if "rayner_sweep" in line and 'sweep="mysweep"' in line)

    wait_for(lambda: "ray_rayner_sweep_best" in (seen := exported()) and "sweep_failures" in seen, pause=1)
    assert re.search(r'ray_rayner_sweep_trials\{.*state="finished".*\} 1\.0', exported())
    assert re.search(r'ray_rayner_sweep_trials\{.*state="pending".*\} 0\.0', exported())
    assert re.search(r'ray_rayner_sweep_best\{.*metric="f1".*\} 0\.5', exported())


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'runs.db'}")
    return pytest.importorskip("mlflow")


def test_mlflow_has_the_sweep_its_trials_and_their_trainings_while_they_run(
    tmp_path: Path, mlflow: Any
) -> None:
    plan = plan_in(tmp_path, tracking={"mlflow": True})
    folder = tmp_path / "trials/scheme=BIO-abc"
    training = folder / "seed1"
    training.mkdir(parents=True)

    def run_of(folder: Path) -> Any:
        return mlflow.get_run((folder / "mlflow_run").read_text())

    with mlflow_sweep(plan.recipe, tmp_path, {"training.clip": "one of 1, 2"}) as run:
        assert run is not None
        plan = replace(plan, mlflow_parent=run)
        trials = MlflowTrials(plan, run)
        trials.start(trial("pending"))
        link_to_trial(plan, training)
        child = MLflow(plan.recipe, training)
        child.write({"step": 1, "epoch": 1, "metrics": {"f1": 0.2}})
        trials.update(trial("running", 0.2))
        assert mlflow.get_run(run).data.params == {"training.clip": "one of 1, 2"}
        assert mlflow.get_run(run).info.status == "RUNNING"
        assert run_of(folder).info.run_name == "scheme=BIO-abc"
        assert run_of(folder).data.params == {"training.clip": "None", "model.scheme": "BIO"}
        assert run_of(folder).data.metrics["f1"] == 0.2
        assert run_of(folder).data.tags["mlflow.parentRunId"] == run
        assert run_of(training).info.run_name == "scheme=BIO-abc seed1"
        assert run_of(training).data.tags["mlflow.parentRunId"] == run_of(folder).info.run_id
        assert {run_of(one).info.status for one in (folder, training)} == {"RUNNING"}
        child.close()

    with mlflow_sweep(plan.recipe, tmp_path, {}) as again:
        assert again is not None
        assert again == run
        assert mlflow.get_run(run).info.status == "RUNNING"
        trials = MlflowTrials(plan, again)
        trials.start(trial("running", 0.2, 0.4))
        MLflow(plan.recipe, training)
        # The scheduler stops the trial, whose process is ended before it can end its run.
        trials.end(trial("stopped", 0.2, 0.4))
        history = mlflow.MlflowClient().get_metric_history(run_of(folder).info.run_id, "f1")
        assert [(point.step, point.value) for point in history] == [(1, 0.2), (2, 0.4)]
        assert {run_of(one).info.status for one in (folder, training)} == {"KILLED"}
        assert run_of(folder).data.tags["state"] == "stopped"
        log_result(run, {"f1": 0.5}, [])
    assert mlflow.get_run(run).data.metrics["f1"] == 0.5
    assert mlflow.get_run(run).info.status == "FINISHED"
    mlflow.end_run()


def test_trainings_on_other_machines_come_below_their_trial_in_mlflow(tmp_path: Path, mlflow: Any) -> None:
    plan = plan_in(tmp_path, tracking={"mlflow": True})
    folder = tmp_path / "trials/scheme=BIO-abc"
    (folder / "seed1").mkdir(parents=True)
    with mlflow_sweep(plan.recipe, tmp_path, {}) as run:
        assert run is not None
        trials = MlflowTrials(replace(plan, uri="s3://bucket/sweep"), run)
        trials.start(trial("pending"))
        # Such a machine does not see the trial's own run.
        (tmp_path / "elsewhere").mkdir()
        link_to_trial(replace(plan, mlflow_parent=run), tmp_path / "elsewhere/seed1")
        child = MLflow(plan.recipe, tmp_path / "elsewhere/seed1")
        child.write({"step": 1, "epoch": 1, "metrics": {"f1": 0.2}})
        (folder / "seed1/mlflow_run").write_text((tmp_path / "elsewhere/seed1/mlflow_run").read_text())
        trials.update(trial("running", 0.2))
        tags = mlflow.get_run((folder / "seed1/mlflow_run").read_text()).data.tags
        assert tags["mlflow.parentRunId"] == (folder / "mlflow_run").read_text()
        child.close()
    mlflow.end_run()


def test_a_sweep_that_raises_has_failed_in_mlflow(tmp_path: Path, mlflow: Any) -> None:
    recipe = plan_in(tmp_path, tracking={"mlflow": True}).recipe
    with pytest.raises(KeyboardInterrupt), mlflow_sweep(recipe, tmp_path, {}):
        raise KeyboardInterrupt
    assert mlflow.get_run((tmp_path / "mlflow_run").read_text()).info.status == "FAILED"


def test_a_server_of_mlflow_that_is_not_there_is_told_in_one_line_without_its_password(
    tmp_path: Path, mlflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ada:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    recipe = plan_in(tmp_path).recipe
    for start in (lambda: MLflow(recipe, tmp_path), mlflow_sweep(recipe, tmp_path, {}).__enter__):
        with pytest.raises(StorageError, match=r"MLflow: .*correct MLFLOW_TRACKING_URI") as error:
            start()
        assert "secret" not in str(error.value)
        assert "\n" not in str(error.value)


def test_without_mlflow_a_sweep_has_no_run(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    with mlflow_sweep(plan.recipe, tmp_path, {}) as run:
        assert run is None
    link_to_trial(plan, tmp_path / "trials/a/seed1")
    assert not (tmp_path / "trials").exists()


def test_the_winner_is_a_child_of_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_in(tmp_path, "above")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        winner, "train", lambda recipe, out, **_: {"parent": (out / MLFLOW_PARENT).read_text()}
    )
    assert winner._train(plan, plan.recipe)["parent"] == "above"
