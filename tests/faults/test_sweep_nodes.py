"""A sweep on two nodes of a cluster: one that does not see its folder, one that is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.util.state import list_tasks

from rayner.runtime.sweeps.plan import plan_of
from rayner.runtime.sweeps.trials import read_lines, read_trials
from tests.faults.own_ray import Head, Nodes, end
from tests.gated import open_gate
from tests.runtime.training.several_workers import toy_values
from tests.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

RATES = (1e-3, 1e-2, 0.1)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Where trials wait after two checkpoints, and a test lets them go on."""
    return tmp_path / "gate"


@pytest.fixture
def command(tmp_path: Path, gate: Path) -> list[str]:
    """A grid of three trials."""
    values: dict[str, Any] = toy_values(tmp_path / "corpus", "gated", checkpoint_every=5, epochs=3)
    values |= {"gate": str(gate), "gate_step": 12}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    space = f'def space(): return {{"training.head_learning_rate": {[*RATES]}}}'
    (tmp_path / "space.py").write_text(space)
    return [
        *(sys.executable, "-m", "rayner", "tune"),
        *map(str, (tmp_path / "space.py", tmp_path / "recipe.yaml")),
    ]


def environment(head: Head) -> dict[str, str]:
    return dict(head.environment) | {"RAY_ADDRESS": head.gcs}


def calls(nodes: Nodes) -> dict[str, str]:
    """The state by id of what commands have done on a node with room for it, as the cluster remembers it."""
    tasks: list[Any] = list_tasks(nodes.head.dashboard, limit=10_000, raise_on_missing_output=False)
    return {task.task_id: task.state for task in tasks if task.name == "_Worker.call"}


def test_a_node_that_does_not_see_the_folder_is_named(
    nodes: Nodes, command: list[str], tmp_path: Path
) -> None:
    nodes.have(1)
    folder = nodes.head.folder
    (tmp_path / "elsewhere").mkdir()
    with nodes.one(tmp_path / "elsewhere") as (address, _):
        # This path leads each process to the folder that it was begun in.
        done = subprocess.run(
            [*command, "--out", "/proc/self/cwd/sweep"],
            env=environment(nodes.head),
            cwd=folder,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2, done.stderr[-3000:]
    [error] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"the node {address} does not see this folder" in error
    assert "name a folder on storage that all nodes share" in error
    assert not (folder / "sweep/trials").exists()


def test_a_trial_that_loses_its_node_is_restarted(
    nodes: Nodes, command: list[str], tmp_path: Path, gate: Path
) -> None:
    nodes.have(2)
    # Other tests have used this cluster, and it remembers their work.
    earlier = calls(nodes)
    out = tmp_path / "sweep"

    def steps() -> dict[str, list[int]]:
        logs = {path.parent.parent.name: path for path in out.glob("trials/*/*/log.jsonl")}
        return {key: [row["step"] for row in read_lines(path) if "loss" in row] for key, path in logs.items()}

    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [*command, "--search", "grid", "--out", str(out)],
            env=environment(nodes.head),
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        # Both nodes have a trial under way, and each trial a checkpoint.
        wait_for(lambda: sum(12 in taken for taken in steps().values()) == 2, process=driver)
        nodes.lose_one()
        open_gate(gate, *RATES)
        assert driver.wait(400) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    finally:
        end(driver.pid)
    assert [trial.state for trial in read_trials(plan_of(out))] == ["finished"] * 3
    assert all(taken == list(range(1, taken[-1] + 1)) for taken in steps().values())
    # The best settings were trained again on a node with CPUs, not beside the driver.
    [winner] = [state for task, state in calls(nodes).items() if task not in earlier]
    assert winner == "FINISHED"


def test_a_node_that_joins_later_and_does_not_see_the_folder_is_named(
    nodes: Nodes, command: list[str], tmp_path: Path
) -> None:
    """A cluster that starts from nothing: when the sweep checks its nodes, there are none but the head."""
    nodes.have(0)
    out, log = nodes.head.folder / "later", tmp_path / "driver.log"
    with log.open("wb") as file:
        driver = subprocess.Popen(
            [*command, "--out", "/proc/self/cwd/later", "--max-concurrent", "1"],
            env=environment(nodes.head),
            cwd=nodes.head.folder,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: driver.poll() is not None or (out / "sweep.json").exists())
        assert driver.poll() is None, log.read_text()[-3000:]
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        with nodes.one(elsewhere) as (address, _):
            assert driver.wait(400) == 2, log.read_text()[-3000:]
        assert not list(out.glob("trials/*/outcome.json"))
    finally:
        end(driver.pid)
    assert f"the node {address} does not see this folder" in log.read_text()
    assert not (elsewhere / "later").exists()
