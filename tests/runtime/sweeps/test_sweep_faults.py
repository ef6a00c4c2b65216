"""Sweeps that are killed, lose a trial's process, or train on several workers."""

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
import ray
import yaml

from rayner.runtime.sweeps import winner
from rayner.runtime.sweeps.plan import plan_of
from rayner.runtime.sweeps.space import load_space
from rayner.runtime.sweeps.sweep import sweep
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.sweeps.trials import read_lines, read_trials
from rayner.runtime.training.train import train
from rayner.tasks.registry import load_recipe, parse_recipe
from tests.gated import open_gate
from tests.runtime.training.several_workers import toy_values
from tests.waiting import below, command_of, is_alive, wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

RAYS_OWN = re.compile(
    r"^.*(?:core_worker|raylet|Token auth|(?:INFO|WARNING) \w+\.py:\d+ -- ).*$", re.MULTILINE
)
"""Lines in the forms that Ray gives its own."""
RATES = (1e-3, 1e-2, 3e-2, 0.1)
SPACE = f'def space(): return {{"training.head_learning_rate": {[*RATES]}}}\n'


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Where trials wait after two checkpoints, and a test lets them go on."""
    return tmp_path / "gate"


@pytest.fixture
def values(tmp_path: Path, gate: Path) -> dict[str, Any]:
    (tmp_path / "space.py").write_text(SPACE)
    values = toy_values(tmp_path / "corpus", "gated", epochs=5, checkpoint_every=5)
    return values | {"gate": str(gate), "gate_step": 12}


def settings(recipe: Any, **changes: Any) -> Any:
    given = {"search": "grid", "max_concurrent": 2, "objectives": objectives(["f1"], recipe)}
    return sweep_settings(**given | changes)


def steps_of(out: Path) -> dict[str, list[int]]:
    """Logged steps of training of each trial."""
    logs = {path.parent.parent.name: path for path in out.glob("trials/*/*/log.jsonl")}
    return {key: [row["step"] for row in read_lines(path) if "loss" in row] for key, path in logs.items()}


def states(out: Path) -> list[str]:
    return [trial.state for trial in read_trials(plan_of(out))] if (out / "sweep.json").exists() else []


class Tuning:
    """`rayner tune` in a process of its own on the common cluster, to be killed and run again.

    Two trials at once: each that runs beside others has a process of its own, which imports torch.
    """

    def __init__(
        self, folder: Path, values: dict[str, Any], environment: dict[str, str], *options: str
    ) -> None:
        self.out, self._folder, self._environment = folder / "sweep", folder, environment
        (folder / "recipe.yaml").write_text(yaml.safe_dump(values))
        files = [str(folder / "space.py"), str(folder / "recipe.yaml")]
        self._command = [sys.executable, "-m", "rayner", "tune", *files, "--out", str(self.out)]
        self._command += ["--search", "grid", "--max-concurrent", "2", *options]
        self.told = ""
        self._at_work: list[psutil.Process] = []

    def left(self) -> list[psutil.Process]:
        """What is still alive of the trials of the process that was killed last."""
        return [process for process in self._at_work if is_alive(process)]

    def kill_once(self, begun: Callable[[], bool], by: signal.Signals = signal.SIGKILL) -> int:
        with subprocess.Popen(
            self._command, cwd=self._folder, env=self._environment, preexec_fn=_heed_interrupts
        ) as process:
            wait_for(begun, 400, process=process)
            self._at_work = trial_processes()
            assert self._at_work, "no trial is under way"
            process.send_signal(by)
            return process.wait(60)

    def run(self) -> dict[str, Any]:
        done = subprocess.run(
            [*self._command, "--json"],
            check=True,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        self.told = done.stderr
        assert not RAYS_OWN.findall(self.told)
        return json.loads(done.stdout.splitlines()[-1])


def _heed_interrupts() -> None:
    """Whoever starts the tests in the background may have them ignored, which processes below inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_killed_sweep_is_resumed(
    tmp_path: Path, values: dict[str, Any], gate: Path, joining: dict[str, str]
) -> None:
    tuning = Tuning(tmp_path, values, joining)
    out = tuning.out

    def begun() -> bool:
        under_way = [steps for steps in steps_of(out).values() if steps and steps[-1] == 12]
        return "finished" in states(out) and len(under_way) > 1

    assert tuning.kill_once(lambda: any(map(len, steps_of(out).values())), signal.SIGINT) == 130
    # Ray Tune has files of that name, too.
    ended = [*out.glob("trials/*/*/result.json"), *out.glob("winner/*")]
    assert not ended, "Ctrl-C began the run of a winner"
    wait_for(lambda: not tuning.left())
    open_gate(gate, RATES[0])
    tuning.kill_once(begun)
    # Whoever looks now sees the trials that were under way, too.
    known = {path.parent.name for path in out.glob("trials/*/trial.json")}
    assert {path.parent.name for path in out.glob("tensorboard/*/events*")} == known
    finished = {t.name for t in read_trials(plan_of(out)) if t.state == "finished"}
    written = {
        path: path.stat().st_mtime_ns for key in finished for path in out.glob(f"trials/{key}/*/result.json")
    }
    assert len(finished) == 1
    # They outlive the killed one by some seconds.
    wait_for(lambda: not tuning.left())
    open_gate(gate, *RATES)
    reached = steps_of(out)
    result = tuning.run()
    assert result["trials"] == {"finished": 4}
    assert {path: path.stat().st_mtime_ns for path in written} == written
    for key, steps in steps_of(out).items():
        assert steps == list(range(1, steps[-1] + 1)), key
        assert steps[-1] >= max(reached.get(key, [0]))
    assert load_recipe(result["best"]).training.head_learning_rate in RATES


def test_a_sweep_that_is_killed_between_rungs_is_resumed(
    tmp_path: Path, values: dict[str, Any], gate: Path, joining: dict[str, str]
) -> None:
    # Six steps an epoch: those of the second round wait in its midst.
    values["training"]["epochs"], values["gate_step"] = 4, 9
    halving = ("--scheduler", "halving", "--grace-period", "1", "--reduction-factor", "2")
    tuning = Tuning(tmp_path, values, joining, *halving)
    out = tuning.out

    def in_the_second_round() -> bool:
        return states(out).count("stopped") == 2 and sum(9 in steps for steps in steps_of(out).values()) == 2

    tuning.kill_once(in_the_second_round)
    stopped = {trial.name: trial.last for trial in read_trials(plan_of(out)) if trial.state == "stopped"}
    open_gate(gate, *RATES)
    result = tuning.run()
    assert result["trials"] == {"finished": 1, "stopped": 3}
    trials = read_trials(plan_of(out))
    assert sorted(trial.last["epochs"] for trial in trials) == [1, 1, 2, 4]
    assert {trial.name: trial.last for trial in trials if trial.last["epochs"] == 1} == stopped
    for key, steps in steps_of(out).items():
        assert steps == list(range(1, steps[-1] + 1)), key
    assert "after 2 of 4 epochs 1 of 2 trials continue" in tuning.told


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_trial_that_loses_its_process_is_restarted(
    tmp_path: Path, values: dict[str, Any], gate: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With workers, two trials at once take all CPUs: the one that was lost needs those that it had."""
    train_the_winner_here(monkeypatch)
    rates = RATES[: 2 if workers else 4]
    (tmp_path / "space.py").write_text(f'def space(): return {{"training.head_learning_rate": {[*rates]}}}')
    recipe, out = parse_recipe(values, "recipe"), tmp_path / "sweep"
    before: dict[Path, Any] = {}
    killer = in_background(lambda: before.update(kill_a_trial(out, gate)))
    given = settings(recipe, workers=workers)
    result = sweep(load_space(str(tmp_path / "space.py")), recipe, out, given)
    killer.join()
    assert any(before.values()), "nothing was killed"
    # With their seconds: what a checkpoint had was not trained anew.
    assert {path: read_lines(path)[: len(rows)] for path, rows in before.items()} == before
    assert result["trials"] == {"finished": len(rates)}
    assert all(steps == list(range(1, steps[-1] + 1)) for steps in steps_of(out).values())


@pytest.mark.usefixtures("ray_cluster")
def test_a_trial_that_lost_its_process_for_good_is_run_again_when_the_sweep_is_resumed(
    tmp_path: Path, values: dict[str, Any], gate: Path
) -> None:
    recipe, out = parse_recipe(values, "recipe"), tmp_path / "sweep"
    space, given = load_space(str(tmp_path / "space.py")), settings(recipe, max_failures=0)
    killer = threading.Thread(target=kill_a_trial, args=(out, gate))
    killer.start()
    result = sweep(space, recipe, out, given)
    killer.join()
    assert result["trials"] == {"finished": 3, "failed": 1}
    [failed] = [trial for trial in read_trials(plan_of(out)) if trial.state == "failed"]
    assert failed.lost
    assert str(failed.error).startswith("the process of the trial died: ")
    assert sweep(space, recipe, out, given)["trials"] == {"finished": 4}
    assert all(steps == list(range(1, steps[-1] + 1)) for steps in steps_of(out).values())


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("scheduler", ["asha", "halving"])
def test_trials_on_two_workers_each(
    tmp_path: Path, values: dict[str, Any], scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_the_winner_here(monkeypatch)
    values["training"]["epochs"], values["gate"] = 2, ""
    (tmp_path / "space.py").write_text('def space(): return {"training.head_learning_rate": [1e-6, 0.1]}\n')
    recipe = parse_recipe(values, "recipe")
    given = settings(recipe, workers=2, scheduler=scheduler, grace_period=1)
    earlier = ray.util.placement_group_table().keys()
    result = sweep(load_space(str(tmp_path / "space.py")), recipe, tmp_path / "sweep", given)
    assert result["settings"] == {"training.head_learning_rate": 0.1}
    assert sum(result["trials"].values()) == 2
    assert scheduler == "asha" or result["trials"] == {"finished": 1, "stopped": 1}
    groups = ray.util.placement_group_table
    wait_for(lambda: all(groups()[name]["state"] == "REMOVED" for name in groups().keys() - earlier))


def train_the_winner_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: on workers it is trained in the tests of nodes."""
    monkeypatch.setattr(winner, "train", lambda *given, **options: train(*given, **options | {"workers": 0}))


def in_background(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def trial_processes() -> list[psutil.Process]:
    """Those below this process that train a trial: titled by their call, or between two by their actor."""
    titles = ("ray::ResourceTrainable", "ray::Trial")
    return [process for process in below(os.getpid()) if command_of(process).startswith(titles)]


def kill_a_trial(out: Path, gate: Path) -> dict[Path, list[dict[str, Any]]]:
    """Kill -9 one process that trains a trial, once one has a checkpoint; what each log had up to those."""
    try:
        wait_for(lambda: any(12 in steps for steps in steps_of(out).values()), 400)
        logs: dict[Path, list[dict[str, Any]]] = {}
        for path in out.glob("trials/*/*/last/state/state.json"):
            step, log = json.loads(path.read_text())["step"], path.parents[2] / "log.jsonl"
            logs[log] = [row for row in read_lines(log) if row["step"] <= step]
        trial_processes()[0].kill()
        return logs
    finally:
        open_gate(gate, *RATES)
