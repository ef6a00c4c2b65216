"""What a launch removes, and how long all launches of a sweep took."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import tune

from rayner.config.recipe_files import with_settings
from rayner.errors import RaynerError
from rayner.files.whole import write_json
from rayner.runtime.sweeps import sweep as sweeps
from rayner.runtime.sweeps import winner
from rayner.runtime.sweeps.folder import claim_folder
from rayner.runtime.sweeps.plan import Plan, sweep_config
from rayner.runtime.sweeps.space import Space
from rayner.runtime.sweeps.sweep import _seconds, _timed, sweep
from rayner.runtime.sweeps.sweep_settings import resolve_settings
from rayner.tasks.registry import parse_recipe
from tests.runtime.training.several_workers import tiny_recipe

SPACE = Space("mine", {"training.learning_rate": tune.choice([0.1])})


@pytest.fixture
def recipe(tmp_path: Path) -> Any:
    return parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")


@pytest.mark.parametrize(
    ("changes", "given", "message"),
    [
        ({"corpus.dev": []}, {}, "has no dev to choose settings by"),
        ({}, {"folds": 5000}, "--folds 5000: .*would be empty"),
        ({}, {"held_out": 0.0001}, "--held-out 0.0001: .*would be empty"),
        ({"tracking.mlflow": True}, {}, "mlflow is not installed"),
        ({}, {"uri": "http://127.0.0.1:9"}, "MLflow: .*start its server"),
    ],
)
def test_a_sweep_that_is_refused_removes_no_other(
    tmp_path: Path, recipe: Any, monkeypatch: pytest.MonkeyPatch, changes: Any, given: Any, message: str
) -> None:
    if "mlflow is not" in message:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    elif "uri" in given:
        pytest.importorskip("mlflow")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", given["uri"])
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(sweeps, "trial_resources", lambda *_: None)
    monkeypatch.setattr(sweeps, "_claimed", lambda *_: pytest.fail("the folder was cleared"))
    recipe = with_settings(recipe, changes, "test")
    settings = resolve_settings(SPACE, recipe, **{key: given[key] for key in given if key != "uri"})
    with pytest.raises(RaynerError, match=message):
        sweep(SPACE, recipe, tmp_path / "out", settings, fresh=True)


def test_what_can_be_swept_goes_on_to_start_over(
    tmp_path: Path, recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Claimed(Exception):
        pass

    def claimed(*_: object) -> None:
        raise Claimed

    monkeypatch.setattr(sweeps, "trial_resources", lambda *_: None)
    monkeypatch.setattr(sweeps, "_claimed", claimed)
    with pytest.raises(Claimed):
        sweep(SPACE, recipe, tmp_path, resolve_settings(SPACE, recipe, folds=2, held_out=0.2), fresh=True)


def test_the_result_that_is_kept_names_the_place_of_the_sweep(
    tmp_path: Path, recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def concluded(*_: object) -> dict[str, Any]:
        return {"best": str(tmp_path / "best.yaml"), "score": {}}

    for name in ("trial_resources", "_corpora", "_plan", "_prepare", "_run", "read_trials"):
        monkeypatch.setattr(sweeps, name, lambda *_: None)
    monkeypatch.setattr(sweeps, "check_no_training", lambda _: None)
    monkeypatch.setattr(sweeps, "kept_in_place", lambda *_, **__: nullcontext((tmp_path, None)))
    monkeypatch.setattr(sweeps, "_claimed", lambda *_: nullcontext())
    monkeypatch.setattr(sweeps, "conclude_sweep", concluded)
    monkeypatch.setattr(sweeps, "_seconds", lambda *_: 1.0)
    result = sweep(SPACE, recipe, Path("s3://bucket/sweep"))
    assert result["best"] == "s3://bucket/sweep/best.yaml"
    assert json.loads((tmp_path / "result.json").read_text()) == result


def test_seconds_are_those_of_all_launches_that_had_something_to_run(
    tmp_path: Path, recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    config = sweep_config(SPACE, recipe, resolve_settings(SPACE, recipe))
    (tmp_path / "trials/a").mkdir(parents=True)

    def launch(seconds: float) -> float:
        claim_folder(tmp_path, False, config)
        begin = now[0]
        with _timed(tmp_path, begin):
            now[0] += seconds
            if seconds == 60:
                raise KeyboardInterrupt
        return _seconds(tmp_path, begin)

    with pytest.raises(KeyboardInterrupt):
        launch(60)
    assert launch(3.4) == 63.4
    write_json(tmp_path / "result.json", {"seconds": 63.4})
    assert launch(0.2) == 63.4
    # More trials.
    (tmp_path / "result.json").unlink()
    assert launch(1) == 64.4


def test_a_winner_that_is_trained_is_not_told_to_be_trained_once_more(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    plan = replace(plan, runs={"seed1": {}})
    corpora, best = SimpleNamespace(rest={}, held_out=None), SimpleNamespace(settings={})
    monkeypatch.setattr(winner, "_train_on_a_node", lambda plan, recipe, _: winner._train(plan, recipe))
    told = []
    for _ in range(2):
        caplog.clear()
        winner._train_again(plan, corpora, best, None)  # type: ignore[arg-type]
        told.append("training the best settings once more" in caplog.text)
    assert told == [True, False]
