"""Sweeps at a URI on machines that share no folder: each puts the trials that it trains in place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayner import load
from rayner.errors import InputError
from rayner.files.fetching import LOCAL_VARIABLE, local
from tests.faults.own_ray import Nodes, lose
from tests.gated import open_gate
from tests.object_storage import BUCKET, Storage, environment, steps_at
from tests.runtime.training.several_workers import toy_values
from tests.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

HOME = f"s3://{BUCKET}/machines"


class Machines:
    """Nodes with a folder of their own each, and a driver whose folder leads any other process elsewhere."""

    def __init__(self, nodes: Nodes, storage: Storage, folder: Path, stack: ExitStack) -> None:
        self._nodes, self._folder, self._stack = nodes, folder, stack
        self._reached = environment(storage.url)
        self.processes: dict[str, int] = {}
        nodes.have(0)

    def start(self, name: str) -> None:
        machine = self._nodes.apart(self._folder / name, self._reached)
        self.processes[name] = self._stack.enter_context(machine)

    def tune(self, values: dict[str, Any], rates: list[float], *more: str) -> subprocess.Popen[str]:
        (self._folder / "recipe.yaml").write_text(yaml.safe_dump(values))
        (self._folder / "space.py").write_text(
            f'def space(): return {{"training.head_learning_rate": {rates}}}'
        )
        files = map(str, (self._folder / "space.py", self._folder / "recipe.yaml"))
        head = self._nodes.head
        variables = {"RAY_ADDRESS": head.gcs, LOCAL_VARIABLE: "/proc/self/cwd/machine", **self._reached}
        driver = subprocess.Popen(
            [sys.executable, "-m", "rayner", "tune", *files, "--search", "grid", "--json", *more],
            env=os.environ | dict(head.environment) | variables,
            cwd=head.folder,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "log").open("w"),
            text=True,
        )
        self._stack.callback(driver.kill)
        return driver

    def trials(self, run: str) -> dict[str, str]:
        """The machines that train a run of a trial, and the names of the trials."""
        logs = {one: [*(self._folder / one).glob(f"work/*/*/{run}/log.jsonl")] for one in self.processes}
        return {one: found[0].parts[-3] for one, found in logs.items() if found}

    def result_of(self, driver: subprocess.Popen[str]) -> dict[str, Any]:
        told, _ = driver.communicate(timeout=600)
        assert driver.returncode == 0, (self._folder / "log").read_text()[-5000:]
        return json.loads(told.splitlines()[-1])


def log_at(place: str) -> list[str]:
    return local(f"{place}/log.jsonl").read_text().splitlines()


def test_the_machine_of_a_trial_is_lost_and_another_goes_on_with_it(
    nodes: Nodes, storage: Storage, tmp_path: Path
) -> None:
    rates, gate, place = [1e-2, 0.1], tmp_path / "gate", f"{HOME}/sweep"
    values = toy_values(tmp_path / "corpus", "gated", checkpoint_every=2)
    values |= {"gate": str(gate), "gate_step": 5}
    with ExitStack() as stack:
        machines = Machines(nodes, storage, tmp_path, stack)
        for name in ("one", "other"):
            machines.start(name)
        driver = machines.tune(values, rates, "--out", place, "--folds", "2")

        def both_wait() -> bool:
            assert driver.poll() is None, (tmp_path / "log").read_text()[-5000:]
            names = machines.trials("fold0-seed1").values()
            return len({*names}) == 2 and all(steps_at(f"{place}/trials/{n}/fold0-seed1") >= 4 for n in names)

        wait_for(both_wait, 300, pause=0.5)
        names = set(machines.trials("fold0-seed1").values())
        before = {name: log_at(f"{place}/trials/{name}/fold0-seed1") for name in names}
        lose(machines.processes["one"])
        machines.start("third")
        wait_for(lambda: "third" in machines.trials("fold0-seed1"), 300)
        open_gate(gate, *rates)
        result = machines.result_of(driver)
    assert (result["best"], result["trials"]) == (f"{place}/best.yaml", {"finished": 2})
    there = local(place)
    outcomes = [json.loads(path.read_text())["state"] for path in there.glob("trials/*/outcome.json")]
    assert outcomes == ["finished"] * 2
    [failures] = there.glob("trials/*/failures.jsonl")
    assert "the process of the trial died" in failures.read_text()
    for name, begun in before.items():
        # With the times that the first machine took: those steps were not done again.
        assert log_at(f"{place}/trials/{name}/fold0-seed1")[: len(begun)] == begun
        run = f"{place}/trials/{name}/fold1-seed1"
        assert load(f"{run}/best")
        with pytest.raises(InputError, match="no such"):
            local(f"{run}/last")
    assert load(result["winner"]["checkpoint"])


def test_the_workers_of_a_trial_are_on_several_machines(
    nodes: Nodes, storage: Storage, tmp_path: Path
) -> None:
    place = f"{HOME}/workers"
    with ExitStack() as stack:
        machines = Machines(nodes, storage, tmp_path, stack)
        for name in ("one", "other"):
            machines.start(name)
        values = toy_values(tmp_path / "corpus", epochs=2)
        driver = machines.tune(values, [0.1], "--out", place, "--workers", "2")
        result = machines.result_of(driver)
    assert result["trials"] == {"finished": 1}
    [trial] = local(place).glob("trials/*")
    assert len([row for row in log_at(f"{place}/trials/{trial.name}/seed1") if "metrics" in row]) == 2
    assert load(f"{place}/trials/{trial.name}/seed1/best")
