"""Sweeps of trainings that take a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from rayner.config.recipe_files import changed_keys, with_settings
from rayner.errors import InputError, RaynerError
from rayner.runtime.elsewhere import WAIT_VARIABLE
from rayner.runtime.sweeps import winner
from rayner.runtime.sweeps.plan import Plan, plan_of
from rayner.runtime.sweeps.ray_tune import TrialResources
from rayner.runtime.sweeps.space import Space, load_space
from rayner.runtime.sweeps.sweep import _prepare, sweep
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.sweeps.trainable import trainable_of
from rayner.runtime.sweeps.trials import read_lines, read_trials
from rayner.runtime.training import example_building
from rayner.runtime.training.example_building import SCANS, build_examples, find_units
from rayner.tasks.registry import load_recipe, parse_recipe, train_task
from tests.runtime.training.several_workers import tiny_recipe, toy_values

RATE = "training.head_learning_rate"
RATES = {RATE: [1e-5, 0.1]}


def space_of(folder: Path, domains: dict[str, Any]) -> Space:
    file = folder / "space.py"
    file.write_text(f"def space(): return {domains!r}")
    return load_space(str(file))


def settings(recipe: Any, **values: Any) -> Any:
    """One trial after the other unless more are asked for: they share a process, which imports torch once."""
    metrics = values.pop("metrics", ["f1"])
    given = {"search": "grid", "objectives": objectives(metrics, recipe)}
    return sweep_settings(**given | {"max_failures": 0, "max_concurrent": 1} | values)


def trials_in(out: Path) -> list[dict[str, Any]]:
    return [
        json.loads(path.read_text())
        | {"folder": path.parent, "outcome": json.loads((path.parent / "outcome.json").read_text())}
        for path in out.glob("trials/*/trial.json")
    ]


@pytest.fixture
def recipe(tmp_path: Path) -> Any:
    return parse_recipe(toy_values(tmp_path / "corpus", epochs=6, head_learning_rate=0.05), "recipe")


@pytest.mark.usefixtures("ray_cluster")
def test_a_sweep_finds_what_learns(tmp_path: Path, recipe: Any) -> None:
    out, space = tmp_path / "sweep", space_of(tmp_path, RATES)
    given = settings(recipe, folds=2, held_out=0.2, max_concurrent=2)
    result = sweep(space, recipe, out, given)
    assert result["settings"] == {RATE: 0.1}
    assert result["trials"] == {"finished": 2}
    found = load_recipe(result["best"])
    assert changed_keys(recipe, found) == [RATE]
    for trial in trials_in(out):
        runs = [json.loads((trial["folder"] / f"fold{i}-seed1/result.json").read_text()) for i in range(2)]
        if trial["settings"] == result["settings"]:
            mean = sum(run["metrics"]["f1"] for run in runs) / 2
            assert result["score"]["f1"] == pytest.approx(mean)
    assert result["interval"] is None
    assert {"f1"} == result["winner"]["held_out"].keys()
    assert json.loads((out / "winner/best/metrics.json").read_text())["f1"] == result["winner"]["score"]["f1"]
    # Two folds and all of the rest: each was tokenized once, whatever the number of trials.
    sets = [path for path in (out / ".examples").iterdir() if path.is_dir() and path.name != SCANS]
    assert len(sets) == 3
    assert list((out / "tensorboard").glob("*/events*"))
    results = tune.ResultGrid(tune.ExperimentAnalysis(str(out / "ray/trials")))
    assert {result.metrics["f1"] for result in results if result.metrics} >= {result["score"]["f1"]}
    assert {result.config["settings"][RATE] for result in results if result.config} == {
        1e-5,
        0.1,
    }
    assert not any(result.error for result in results)
    # A trial has one name wherever one meets it; Ray Tune adds its own id.
    names = sorted(path.name for path in (out / "trials").iterdir())
    assert [name.rpartition("-")[0] for name in names] == [
        "head_learning_rate=0.1",
        "head_learning_rate=1e-05",
    ]
    assert sorted(path.name for path in (out / "tensorboard").iterdir()) == names
    assert sorted("-".join(Path(result.path).name.split("-")[:-1]) for result in results) == names
    restored = tune.Tuner.restore(str(out / "ray/trials"), trainable=trainable_of(plan_of(out))).get_results()
    assert len(restored.get_dataframe()) == 2
    left = [path for path in (out / "ray").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in left) < 200_000, left

    before = {path: path.stat().st_mtime_ns for path in out.glob("trials/*/*/log.jsonl")}
    again = sweep(space, recipe, out, given)
    assert again == result
    assert {path: path.stat().st_mtime_ns for path in out.glob("trials/*/*/log.jsonl")} == before
    with pytest.raises(InputError, match=r"changed: settings\.folds"):
        sweep(space, recipe, out, settings(recipe, folds=3, held_out=0.2))
    with pytest.raises(InputError, match=r"changed: .*training\.head_learning_rate"):
        sweep(space_of(tmp_path, {RATE: [1.0]}), recipe, out, given)


@pytest.mark.usefixtures("ray_cluster")
def test_a_trial_that_fails_is_recorded_and_the_sweep_goes_on(tmp_path: Path, recipe: Any) -> None:
    recipe = with_settings(recipe, {"training.clip": None, RATE: 1e30}, "test")
    domains = {RATE: [0.1, 1e30]}
    out = tmp_path / "sweep"
    result = sweep(space_of(tmp_path, domains), recipe, out, settings(recipe, max_failures=1))
    assert result["settings"] == {RATE: 0.1}
    assert result["trials"]["finished"] == 1
    [failed] = [trial for trial in trials_in(out) if trial["outcome"]["state"] == "failed"]
    assert "no finite number" in failed["outcome"]["error"]
    assert len(read_lines(failed["folder"] / "failures.jsonl")) == 2
    # It was started over with another seed.
    assert "seed: 1001\n" in (failed["folder"] / "seed1/recipe.yaml").read_text()


@pytest.mark.faults
@pytest.mark.usefixtures("ray_cluster")
def test_a_trial_that_runs_out_of_memory_is_recorded_and_the_sweep_goes_on(tmp_path: Path) -> None:
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger", epochs=1), "recipe")
    out, domains = tmp_path / "sweep", {"encoder": ["random:40000000000x2", "random:32x2"]}
    result = sweep(space_of(tmp_path, domains), recipe, out, settings(recipe, max_failures=1))
    assert result["settings"] == {"encoder": "random:32x2"}
    assert result["trials"] == {"finished": 1, "failed": 1}
    [failed] = [trial for trial in trials_in(out) if trial["outcome"]["state"] == "failed"]
    assert "can't allocate memory" in failed["outcome"]["error"]
    assert len(read_lines(failed["folder"] / "failures.jsonl")) == 2


@pytest.mark.usefixtures("ray_cluster")
def test_if_every_trial_fails_the_first_reason_is_told(tmp_path: Path, recipe: Any) -> None:
    # Each value is good by itself; together they leave too little of a window.
    domains = {"windows.overlap": [60], "windows.length": [70]}
    with pytest.raises(RaynerError, match=r"no trial finished.*the first: .*overlap"):
        sweep(space_of(tmp_path, domains), recipe, tmp_path / "sweep", settings(recipe))


@pytest.mark.usefixtures("ray_cluster")
def test_optuna_with_two_objectives_and_more_trials_later(tmp_path: Path, recipe: Any) -> None:
    out, domains = (
        tmp_path / "sweep",
        {RATE: [1e-3, 1e-2, 0.1], "training.epochs": [1, 2]},
    )
    given = {"search": "optuna", "metrics": ["f1", "seconds"]}
    result = sweep(space_of(tmp_path, domains), recipe, out, settings(recipe, trials=1, **given))
    assert result["score"].keys() == {"f1", "seconds"}
    assert result["pareto"]
    first = {trial["folder"].name for trial in trials_in(out)}
    sweep(space_of(tmp_path, domains), recipe, out, settings(recipe, trials=2, **given))
    assert first < {trial["folder"].name for trial in trials_in(out)}


@pytest.mark.usefixtures("ray_cluster")
def test_asha_stops_what_falls_behind(tmp_path: Path, recipe: Any) -> None:
    # What runs beside it and reports first is never stopped, whatever its score.
    domains = {RATE: [0.1, 1e-30]}
    given = settings(recipe, scheduler="asha", grace_period=2, reduction_factor=2)
    out = tmp_path / "sweep"
    result = sweep(space_of(tmp_path, domains), recipe, out, given)
    assert result["trials"] == {"finished": 1, "stopped": 1}
    assert result["settings"] == {RATE: 0.1}
    epochs = {trial.state: trial.last["epochs"] for trial in read_trials(plan_of(out))}
    assert epochs == {"finished": 6, "stopped": 2}
    low, high = result["interval"]
    assert low <= result["score"]["f1"] <= high
    assert not list(out.glob("trials/*/*/last"))


@pytest.mark.usefixtures("ray_cluster")
def test_halving_compares_all_trials_at_each_rung(tmp_path: Path, recipe: Any) -> None:
    recipe = with_settings(recipe, {"training.checkpoint_every": 1000}, "test")
    given = settings(recipe, scheduler="halving", grace_period=2, reduction_factor=4)
    out, space = (
        tmp_path / "sweep",
        space_of(tmp_path, {RATE: [1e-30, 0.1, 1e-3, 1e-4]}),
    )
    result = sweep(space, recipe, out, given)
    assert result["trials"] == {"finished": 1, "stopped": 3}
    assert result["settings"][RATE] == 0.1
    trials = read_trials(plan_of(out))
    at_the_rung = {trial.name: trial.reports[1]["f1"] for trial in trials}
    for trial in trials:
        assert trial.last["epochs"] == (6 if trial.state == "finished" else 2)
        assert trial.state == "stopped" or at_the_rung[trial.name] == max(at_the_rung.values())
        rows = read_lines(out / "trials" / trial.name / "seed1" / "log.jsonl")
        steps = [row["step"] for row in rows if "loss" in row]
        assert steps == list(range(1, len(steps) + 1)), "a step was taken twice, or one beyond the rung"
    assert not list(out.glob("trials/*/*/last"))


def test_what_trials_share_is_made_on_all_cpus(
    tmp_path: Path, recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int | None, int]] = []

    def mapped(work: Any, parts: Any, workers: int | None = None, asks_model: bool = False) -> Any:
        asked.append((workers, len(parts)))
        return map(work, parts)

    monkeypatch.setattr(example_building, "parallel_map", mapped)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True}])
    other = tmp_path / "dev.jsonl"
    other.write_text(Path(recipe.corpus.train[0]).read_text().splitlines()[0])
    recipe = with_settings(recipe, {"corpus.dev": [str(other)]}, "recipe")
    plan = Plan(recipe, settings(recipe), tmp_path, tmp_path / "cache", {"seed1": {}, "seed2": {}}, tmp_path)
    (tmp_path / "sweep.json").write_text('{"recipe": {}, "settings": {}}')
    _prepare(plan)
    assert {workers for workers, _ in asked} == {None}
    # The files of train and of dev, and the examples; a trial finds all of it.
    assert sum(parts for _, parts in asked) == 3
    asked.clear()
    task = train_task(recipe)
    build_examples(task, plan.cache)
    for split in ("dev", "calibration"):
        find_units(task, split, plan.cache)
    assert sum(parts for _, parts in asked) == 0
    # Trials on other data would be held against those so far.
    _prepare(plan)
    other.write_text(Path(recipe.corpus.train[0]).read_text().splitlines()[1])
    with pytest.raises(
        InputError, match=r"files have changed, or rayner has; restore them, start over with --fresh, or"
    ):
        _prepare(plan)


def test_a_sweep_is_not_removed_for_one_that_nothing_can_be_learned_from(tmp_path: Path, recipe: Any) -> None:
    (tmp_path / "out/trials/a").mkdir(parents=True)
    (tmp_path / "out/sweep.json").write_text("{}")
    recipe = with_settings(recipe, {"corpus.train": [str(tmp_path / "nowhere.jsonl")]}, "recipe")
    with pytest.raises(InputError, match=r"nowhere.jsonl does not exist"):
        sweep(space_of(tmp_path, RATES), recipe, tmp_path / "out", fresh=True)
    assert (tmp_path / "out/trials/a").exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, recipe: Any) -> None:
    (tmp_path / "file").write_text("")
    space = space_of(tmp_path, RATES)
    refused = {
        tmp_path / "file": "is a file; name a folder",
        tmp_path / "file/sweep": f"lies below {tmp_path / 'file'}, which is a file",
        Path("/proc/sweep"): "cannot be written",
    }
    for out, what in refused.items():
        with pytest.raises(InputError, match=what):
            sweep(space, recipe, out, settings(recipe))
    with pytest.raises(InputError, match="has no conditional writes"):
        sweep(space, recipe, Path("memory://bucket/sweep"), settings(recipe))


@pytest.mark.faults
@pytest.mark.usefixtures("ray_cluster")
def test_a_trial_on_a_node_that_does_not_see_the_folder_ends_the_sweep(
    tmp_path: Path, recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of nodes that join later nothing is known before; here the file that they look for is gone."""
    monkeypatch.setattr("rayner.runtime.sweeps.sweep.check_nodes", lambda marker: marker.unlink())
    out = tmp_path / "sweep"
    with pytest.raises(InputError, match=r"the node [\d.]+ does not see this folder"):
        sweep(space_of(tmp_path, RATES), recipe, out, settings(recipe, max_failures=2))
    assert {trial.state for trial in read_trials(plan_of(out))} <= {"pending"}
    monkeypatch.undo()
    assert sweep(space_of(tmp_path, RATES), recipe, out, settings(recipe))["trials"] == {"finished": 2}


@pytest.mark.usefixtures("ray_cluster")
def test_a_trial_that_no_node_can_hold_is_refused(tmp_path: Path, recipe: Any) -> None:
    recipe = with_settings(recipe, {"scaling.cpus_per_worker": 1000}, "test")
    with pytest.raises(InputError, match="a trial needs 1 x 1000 CPU"):
        sweep(space_of(tmp_path, RATES), recipe, tmp_path / "sweep", settings(recipe, max_concurrent=None))


@pytest.mark.usefixtures("ray_cluster")
def test_the_winner_trains_on_a_node_with_room_and_is_refused_in_time_where_there_is_none(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winner, "only_here", lambda nodes, resources: False)
    found = winner._train_on_a_node(plan, plan.recipe, TrialResources({"CPU": 1}, 1))
    assert (found["seed"], Path(found["checkpoint"]).is_dir()) == (plan.recipe.seed, True)
    monkeypatch.setenv(WAIT_VARIABLE, "0.5")
    with pytest.raises(InputError, match=r"no node has had room for cpus 1000 for 0\.5 s"):
        winner._train_on_a_node(plan, plan.recipe, TrialResources({"CPU": 1000}, 1))
