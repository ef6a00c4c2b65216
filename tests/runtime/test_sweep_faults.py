"""Sweeps that are killed, lose a trial's process, train on several workers, or are a population."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from rayner.recipes import load_recipe, parse_recipe
from rayner.runtime.sweep import sweep
from rayner.runtime.sweeps.settings import objectives, sweep_settings
from rayner.runtime.sweeps.space import load_space
from rayner.runtime.sweeps.trials import plan_of, read_lines, read_trials
from tests.runtime.several_workers import tiny_recipe
from tests.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

SPACE = 'def space(): return {"training.learning_rate": [1e-3, 2e-3, 5e-3, 1e-2]}\n'
RANGE = 'from ray import tune\ndef space(): return {"training.learning_rate": tune.loguniform(1e-6, 3e-2)}\n'


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "space.py").write_text(SPACE)
    return tiny_recipe(tmp_path / "corpus", "tagger", epochs=30, checkpoint_every=5)


def settings(recipe: Any, **changes: Any) -> Any:
    return sweep_settings(**{"search": "grid", "objectives": objectives(["f1"], recipe)} | changes)


def steps_of(out: Path) -> dict[str, list[int]]:
    """Logged steps of training of each trial."""
    logs = {path.parent.parent.name: path for path in out.glob("trials/*/*/log.jsonl")}
    return {key: [row["step"] for row in read_lines(path) if "loss" in row] for key, path in logs.items()}


def states(out: Path) -> list[str]:
    return [trial.state for trial in read_trials(plan_of(out))] if (out / "sweep.json").exists() else []


class Tuning:
    """`rayner tune` in a process of its own, to be killed and run again."""

    def __init__(self, root: Path, folder: Path, values: dict[str, Any], *options: str) -> None:
        self.out, self._folder = folder / "sweep", folder
        (folder / "recipe.yaml").write_text(yaml.safe_dump(values))
        files = [str(folder / "space.py"), str(folder / "recipe.yaml")]
        self._command = [sys.executable, "-m", "rayner.cli", "tune", *files, "--out", str(self.out), *options]
        self.told = ""
        self._below: list[psutil.Process] = []
        self._environment = os.environ | {"PYTHONPATH": str(root / "platform"), "OMP_NUM_THREADS": "1"}

    def left(self) -> list[psutil.Process]:
        """What is still alive of the processes below the one that was killed last."""
        return [process for process in self._below if _alive(process)]

    def kill_once(self, begun: Callable[[], bool], by: signal.Signals = signal.SIGKILL) -> int:
        def alive() -> bool:
            assert process.poll() is None, "it was over before it could be killed"
            return begun()

        with subprocess.Popen(self._command, env=self._environment, cwd=self._folder) as process:
            wait_for(alive, 400)
            self._below = psutil.Process(process.pid).children(recursive=True)
            assert self._below, "it has started no process"
            process.send_signal(by)
            return process.wait(60)

    def run(self) -> dict[str, Any]:
        command = [*self._command, "--json"]
        done = subprocess.run(
            command, check=True, env=self._environment, cwd=self._folder, capture_output=True, text=True
        )
        self.told = done.stderr
        return json.loads(done.stdout.splitlines()[-1])


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_sweep_goes_on(tmp_path: Path, root: Path, values: dict[str, Any]) -> None:
    tuning = Tuning(root, tmp_path, values, "--search", "grid")
    out = tuning.out

    def begun() -> bool:
        under_way = [steps for steps in steps_of(out).values() if steps and steps[-1] >= 10]
        return "finished" in states(out) and len(under_way) > 1

    assert tuning.kill_once(lambda: any(map(len, steps_of(out).values())), signal.SIGINT) == 130
    assert not any(out.glob("*/**/result.json")), "Ctrl-C began the run of a winner"
    tuning.kill_once(begun)
    finished = {t.key for t in read_trials(plan_of(out)) if t.state == "finished"}
    written = {
        path: path.stat().st_mtime_ns for key in finished for path in out.glob(f"trials/{key}/*/result.json")
    }
    assert len(finished) < 4
    # Ray's processes outlive the killed one by some seconds, and may take further steps meanwhile.
    wait_for(lambda: not tuning.left())
    reached = steps_of(out)
    result = tuning.run()
    assert result["trials"] == {"finished": 4}
    assert {path: path.stat().st_mtime_ns for path in written} == written
    for key, steps in steps_of(out).items():
        assert steps == list(range(1, steps[-1] + 1)), key
        assert steps[-1] >= max(reached.get(key, [0]))
    assert load_recipe(result["best"]).training.learning_rate in (1e-3, 2e-3, 5e-3, 1e-2)


def test_a_sweep_that_is_killed_between_rungs_goes_on(
    tmp_path: Path, root: Path, values: dict[str, Any]
) -> None:
    values["training"]["epochs"] = 16
    halving = ("--scheduler", "halving", "--grace", "4", "--reduction", "2")
    tuning = Tuning(root, tmp_path, values, "--search", "grid", *halving)
    out = tuning.out

    def in_the_second_round() -> bool:
        if "stopped" not in states(out):
            return False
        return any(trial.state == "running" for trial in read_trials(plan_of(out)))

    tuning.kill_once(in_the_second_round)
    stopped = {trial.key: trial.last for trial in read_trials(plan_of(out)) if trial.state == "stopped"}
    assert len(stopped) == 2
    result = tuning.run()
    assert result["trials"] == {"finished": 1, "stopped": 3}
    trials = read_trials(plan_of(out))
    assert sorted(trial.last["epochs"] for trial in trials) == [4, 4, 8, 16]
    assert {trial.key: trial.last for trial in trials if trial.last["epochs"] == 4} == stopped
    for key, steps in steps_of(out).items():
        assert steps == list(range(1, steps[-1] + 1)), key
    assert "after 8 of 16 epochs 1 of 2 trials go on" in tuning.told


@pytest.mark.usefixtures("ray_cluster")
def test_a_trial_that_loses_its_process_is_begun_again(tmp_path: Path, values: dict[str, Any]) -> None:
    recipe, out = parse_recipe(values, "recipe"), tmp_path / "sweep"
    before: dict[Path, Any] = {}
    killer = in_background(lambda: before.update(kill_a_trial(out)))
    result = sweep(load_space(str(tmp_path / "space.py")), recipe, out, settings(recipe))
    killer.join()
    assert any(before.values()), "nothing was killed"
    # With their seconds: what a checkpoint had was not trained anew.
    assert {path: read_lines(path)[: len(rows)] for path, rows in before.items()} == before
    assert result["trials"] == {"finished": 4}
    assert all(steps == list(range(1, steps[-1] + 1)) for steps in steps_of(out).values())


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("scheduler", ["asha", "halving"])
def test_trials_on_two_workers_each(tmp_path: Path, values: dict[str, Any], scheduler: str) -> None:
    values["training"]["epochs"] = 3
    (tmp_path / "space.py").write_text('def space(): return {"training.learning_rate": [1e-6, 1e-2]}\n')
    recipe = parse_recipe(values, "recipe")
    given = settings(recipe, workers=2, scheduler=scheduler, grace=1)
    result = sweep(load_space(str(tmp_path / "space.py")), recipe, tmp_path / "sweep", given)
    assert result["settings"] == {"training.learning_rate": 0.01}
    assert sum(result["trials"].values()) == 2
    assert scheduler == "asha" or result["trials"] == {"finished": 1, "stopped": 1}


@pytest.mark.usefixtures("ray_cluster")
def test_a_population_hands_on_what_it_learned(tmp_path: Path, values: dict[str, Any]) -> None:
    values["training"] |= {"epochs": 8, "log_every": 1, "tokens_per_step": 200}
    (tmp_path / "space.py").write_text(RANGE)
    recipe, out = parse_recipe(values, "recipe"), tmp_path / "sweep"
    given = settings(recipe, search="random", scheduler="pbt", grace=1, trials=4)
    result = sweep(load_space(str(tmp_path / "space.py")), recipe, out, given)
    assert result["trials"] == {"finished": 4}
    changes = [read_lines(path) for path in out.glob("trials/*/schedule.jsonl")]
    assert max(map(len, changes)) > 1
    rates = [change["settings"]["training.learning_rate"] for trial in changes for change in trial]
    assert all(1e-6 <= rate <= 3e-2 for rate in rates)
    assert not list(out.glob("ray/*/*/checkpoint_*"))


def test_a_killed_population_goes_on(
    tmp_path: Path, root: Path, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    values["training"] |= {"epochs": 6, "tokens_per_step": 200}
    (tmp_path / "space.py").write_text(RANGE)
    # Ray Tune writes down a population every ten seconds, in which a small one may come to its end.
    monkeypatch.setenv("TUNE_GLOBAL_CHECKPOINT_S", "1")
    tuning = Tuning(root, tmp_path, values, "--scheduler", "pbt", "--grace", "1", "--trials", "3")
    out, population = tuning.out, tuning.out / "ray" / "population"

    def changes() -> dict[str, list[Any]]:
        return {path.parent.name: read_lines(path) for path in out.glob("trials/*/schedule.jsonl")}

    def begun() -> bool:
        """A checkpoint changed hands, which Ray Tune has written down."""
        handed = [path for path in out.glob("trials/*/schedule.jsonl") if len(read_lines(path)) > 1]
        known = list(population.glob("experiment_state-*.json"))
        return bool(handed and known) and max(map(modified, known)) > min(map(modified, handed))

    tuning.kill_once(begun)
    before = changes()
    assert "finished" not in states(out)
    # A kill while Ray Tune copies its state over the one before leaves no whole one there.
    for state in (*population.glob("*.json"), *population.glob("*.pkl")):
        state.write_bytes(state.read_bytes()[:20])
    result = tuning.run()
    assert result["trials"] == {"finished": 3}
    assert all(trial.last["epochs"] == 6 for trial in read_trials(plan_of(out)))
    # The same trials, with all that they had gone through; none was begun anew.
    after = changes()
    assert {key: after[key][: len(rows)] for key, rows in before.items()} == before
    assert not list(out.glob("ray/*/*/checkpoint_*"))
    assert not re.search("Restored on|Wrote the latest", tuning.told), tuning.told[-3000:]


def modified(path: Path) -> float:
    return path.stat().st_mtime


def in_background(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def kill_a_trial(out: Path) -> dict[Path, list[dict[str, Any]]]:
    """Kill -9 one process that trains a trial, once it has a checkpoint; what each log had up to those."""

    def trials() -> list[psutil.Process]:
        below = psutil.Process().children(recursive=True)
        return [process for process in below if "ImplicitFunc" in " ".join(process.cmdline())]

    wait_for(lambda: any(steps and steps[-1] > 10 for steps in steps_of(out).values()), 400)
    logs: dict[Path, list[dict[str, Any]]] = {}
    for path in out.glob("trials/*/*/last/state/state.json"):
        step, log = json.loads(path.read_text())["step"], path.parents[2] / "log.jsonl"
        logs[log] = [row for row in read_lines(log) if row["step"] <= step]
    trials()[0].kill()
    return logs
