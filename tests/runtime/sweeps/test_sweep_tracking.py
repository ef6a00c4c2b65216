"""A sweep in TensorBoard and in MLflow."""

from __future__ import annotations

import math
import re
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rayner.data import warned_once
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
from rayner.runtime.sweeps.trials import State, Trial, record_failure
from rayner.runtime.tracking import MLFLOW_PARENT, MLFLOW_RUN, MLflow, tracked, wants_mlflow
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
        # A later launch reports again what it did: it has not lasted until then.
        MlflowTrials(plan, again).start(trial("stopped", 0.2, 0.4))
        assert run_of(folder).info.status == "KILLED"
        log_result(run, {"f1": 0.5}, [])
    assert mlflow.get_run(run).data.metrics["f1"] == 0.5
    assert mlflow.get_run(run).info.status == "FINISHED"
    mlflow.end_run()


def test_after_a_loss_that_was_not_finite_a_trial_has_another_curve_in_mlflow(
    tmp_path: Path, mlflow: Any
) -> None:
    plan = plan_in(tmp_path, tracking={"mlflow": True})
    folder = tmp_path / "trials/scheme=BIO-abc"
    folder.mkdir(parents=True)
    with mlflow_sweep(plan.recipe, tmp_path, {}) as run:
        assert run is not None
        trials, seen = MlflowTrials(plan, run), []
        for scores in ((0.2, 0.3), (0.7,)):
            trials.start(trial("pending"))
            trials.update(trial("running", *scores))
            seen.append((folder / "mlflow_run").read_text())
            record_failure(folder, "the loss is not finite", diverged=True)
        history = mlflow.MlflowClient().get_metric_history(seen[1], "f1")
        assert [(point.step, point.value) for point in history] == [(1, 0.7)]
        assert [mlflow.get_run(one).info.status for one in seen] == ["FAILED", "RUNNING"]
        trials.end(trial("failed", 0.7))
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


class Server:
    """What MLflow's client does at a server that may be away."""

    def __init__(self) -> None:
        self.is_away, self.calls = False, 0
        self.points: list[tuple[str, int, float]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            from mlflow.exceptions import MlflowException

            self.calls += 1
            if self.is_away:
                raise MlflowException("connection refused")
            if name == "log_metric":
                self.points.append((given[1], given[4], given[2]))
            if name == "get_metric_history":
                return [point for point in self.points if point[0] == given[1]]
            info = SimpleNamespace(status="FINISHED", run_id=given[0] if given else "")
            return SimpleNamespace(info=info, data=SimpleNamespace(tags={}))

        return call


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    server = Server()
    monkeypatch.setattr("mlflow.MlflowClient", lambda: server)
    return server


def begun(folder: Path) -> None:
    """It has a run in MLflow."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mlflow_run").write_text("abc")


def test_trials_go_on_without_a_server_of_mlflow_that_goes_away_and_a_later_launch_sends_the_rest(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    begun(tmp_path / "trials/scheme=BIO-abc")
    trials = MlflowTrials(plan_in(tmp_path), "above")
    trials.start(trial("pending"))
    trials.update(trial("running", 0.2))
    server.is_away, before = True, server.calls
    trials.update(trial("running", 0.2, 0.4))
    trials.end(trial("finished", 0.2, 0.4, 0.5))
    trials.start(trial("pending"))
    assert caplog.text.count(f"not tracked: the rest of this launch of {tmp_path.name} (MLflow: conn") == 1
    # Each would wait for an answer.
    assert server.calls == before + 1
    server.is_away = False
    trials = MlflowTrials(plan_in(tmp_path), "above")
    trials.start(trial("finished", 0.2, 0.4, 0.5))
    trials.end(trial("finished", 0.2, 0.4, 0.5))
    assert [point[1:] for point in server.points if point[0] == "f1"] == [(1, 0.2), (2, 0.4), (3, 0.5)]


def test_a_sweep_ends_without_a_server_of_mlflow_that_went_away(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    begun(tmp_path)
    recipe = plan_in(tmp_path).recipe
    with mlflow_sweep(recipe, tmp_path, {}) as run:
        server.is_away = True
        log_result(run, {"f1": 0.5}, [])
    server.is_away = False

    def interrupted() -> None:
        with mlflow_sweep(recipe, tmp_path, {}):
            server.is_away = True
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [record.message.partition(" (")[0] for record in caplog.records] == [
        "not tracked: the result of the sweep",
        *2 * [f"not tracked: the end of the sweep {tmp_path.name}"],
    ]


def test_a_training_goes_on_without_a_server_of_mlflow_that_goes_away(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import mlflow

    server.is_away = True
    monkeypatch.setattr(MLflow, "_start", lambda *_: None)
    for name in ("log_metrics", "end_run"):
        monkeypatch.setattr(mlflow, name, getattr(server, name))
    with tracked(tmp_path, plan_in(tmp_path).recipe, 0, []) as trackers:
        for step in (1, 2):
            for tracker in trackers:
                tracker.write({"step": step, "loss": 1.0})
    assert caplog.text.count(f"not tracked: the rest of the training in {tmp_path}") == 1
    assert caplog.text.count(f"not tracked: the end of the training in {tmp_path}") == 1
    assert server.calls == 2


@pytest.mark.parametrize("call", ["log_metrics", "log_params"])
def test_the_next_training_of_a_process_is_tracked_again(
    tmp_path: Path, mlflow: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    recipe, above = plan_in(tmp_path).recipe, plan_in(tmp_path, "above")
    mlflow.set_experiment(recipe.tracking.experiment)
    for name in ("seed1", "seed2"):
        link_to_trial(above, tmp_path / "trial" / name)
        (tmp_path / "trial" / name / MLFLOW_PARENT).write_text(mlflow.start_run().info.run_id)
        mlflow.end_run()
    server = Server()
    server.is_away = True
    with monkeypatch.context() as away:
        away.setattr(mlflow, call, getattr(server, call))
        with tracked(tmp_path / "trial/seed1", recipe, 0, []) as trackers:
            trackers[-1].write({"step": 1, "loss": 1.0})
    assert "not tracked" in caplog.text
    caplog.clear()
    for name in ("seed1", "seed2"):
        with tracked(tmp_path / "trial" / name, recipe, 0, []) as trackers:
            trackers[-1].write({"step": 2, "loss": 1.0})
        run = mlflow.get_run((tmp_path / "trial" / name / MLFLOW_RUN).read_text())
        assert run.data.params["task"] == "tagger"
        assert run.data.metrics == {"train/loss": 1.0}
    assert "not tracked" not in caplog.text


def test_a_trial_begins_without_a_server_of_mlflow_and_a_training_of_its_own_does_not(
    tmp_path: Path, mlflow: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    recipe = plan_in(tmp_path).recipe
    with pytest.raises(StorageError, match="MLflow"), tracked(tmp_path, recipe, 0, []):
        pass
    link_to_trial(plan_in(tmp_path, "above"), tmp_path / "trial/seed1")
    with tracked(tmp_path / "trial/seed1", recipe, 0, []) as trackers:
        assert len(trackers) == 2
    assert "not tracked: the training in" in caplog.text


def test_a_server_that_is_named_without_mlflow_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(warned_once, "_said", set())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    for _ in range(2):
        assert not wants_mlflow(plan_in(tmp_path).recipe)
    assert caplog.text.count("MLFLOW_TRACKING_URI has no effect: mlflow is not installed; pip install") == 1


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
