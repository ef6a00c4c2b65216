"""A sweep in TensorBoard and in MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.runtime.sweeps import winner
from rayner.runtime.sweeps.settings import objectives, sweep_settings
from rayner.runtime.sweeps.tracking import begin_mlflow, end_mlflow, note_parent, write_hparams
from rayner.runtime.sweeps.trials import Plan, Trial
from rayner.runtime.tracking import MLFLOW_PARENT, MLflow
from rayner.tasks.registry import parse_recipe
from tests.runtime.several_workers import tiny_recipe


def test_tensorboard_has_the_settings_and_curves_of_each_trial(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recipe = parse_recipe(tiny_recipe(tmp_path, "tagger"), "recipe")
    settings = sweep_settings(objectives=objectives(["f1"], recipe))
    plan = Plan(recipe, settings, tmp_path, tmp_path, {"seed1": {}}, tmp_path)
    reports = [
        {"f1": f1, "epochs": epoch, "steps": epoch, "seconds": 1.0} for epoch, f1 in ((1, 0.2), (2, 0.5))
    ]
    trial = Trial("abc", 3, {"training.clip": None, "seed": 4}, "finished", None, 0, reports, [0.5])
    write_hparams(plan, [trial])
    events = EventAccumulator(str(tmp_path / "tensorboard/003-abc")).Reload()
    assert [(event.step, round(event.value, 3)) for event in events.Scalars("sweep/f1")] == [
        (1, 0.2),
        (2, 0.5),
    ]
    assert "_hparams_/session_start_info" in events.summary_metadata


def test_mlflow_has_a_run_above_those_of_the_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'runs.db'}")
    values = tiny_recipe(tmp_path / "corpus", "tagger") | {"tracking": {"mlflow": True}}
    recipe = parse_recipe(values, "recipe")
    parent = begin_mlflow(recipe, tmp_path, {"training.clip": "one of 1, 2"})
    assert parent is not None
    assert begin_mlflow(recipe, tmp_path, {}) == parent
    run = tmp_path / "trials/abc/seed1"
    settings = sweep_settings(objectives=objectives(["f1"], recipe))
    note_parent(Plan(recipe, settings, tmp_path, tmp_path, {"seed1": {}}, tmp_path, parent), run)
    child = MLflow(recipe, run)
    child.write({"step": 1, "epoch": 1, "metrics": {"f1": 0.5}})
    child.close()
    end_mlflow(parent, {"f1": 0.5}, [])
    found = mlflow.get_run((run / "mlflow_run").read_text())
    assert found.data.tags["mlflow.parentRunId"] == parent
    assert found.info.run_name == "abc seed1"
    assert mlflow.get_run(parent).data.metrics["f1"] == 0.5


def test_the_winner_is_a_child_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")
    settings = sweep_settings(objectives=objectives(["f1"], recipe))
    plan = Plan(recipe, settings, tmp_path, tmp_path, {"seed1": {}}, tmp_path, "above")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        winner, "train", lambda recipe, out, **_: {"parent": (out / MLFLOW_PARENT).read_text()}
    )
    assert winner._train(plan, recipe)["parent"] == "above"
