"""A sweep on two nodes of a cluster: one that does not see its folder, one that is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.util.state import list_tasks

from rayner.runtime.sweeps.plan import plan_of
from rayner.runtime.sweeps.trials import read_lines, read_trials
from tests.faults.own_ray import Head, end, environment_of_nodes, lose, own_head, own_node
from tests.runtime.training.several_workers import tiny_recipe
from tests.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

ADDRESSES = ("127.0.0.2", "127.0.0.3")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Head, list[int]]]:
    """A head without CPUs and two nodes of one CPU, the second of which begins in another folder."""
    environment = environment_of_nodes()
    with ExitStack() as stack:
        head = stack.enter_context(own_head(options=["--num-cpus", "0"], environment=environment))
        folders = (head.folder, tmp_path_factory.mktemp("elsewhere"))
        started = [
            stack.enter_context(own_node(head, address, ["--num-cpus", "1"], folder))
            for address, folder in zip(ADDRESSES, folders, strict=True)
        ]
        yield head, started


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A grid of three trials that take some seconds."""
    values: dict[str, Any] = tiny_recipe(tmp_path / "corpus", "tagger", epochs=30, checkpoint_every=5)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    (tmp_path / "space.py").write_text('def space(): return {"training.learning_rate": [1e-3, 2e-3, 5e-3]}')
    return [
        *(sys.executable, "-m", "rayner.cli", "tune"),
        *map(str, (tmp_path / "space.py", tmp_path / "recipe.yaml")),
    ]


def test_a_node_that_does_not_see_the_folder_is_named(
    nodes: tuple[Head, list[int]], command: list[str]
) -> None:
    head, _ = nodes
    # This path leads each process to the folder that it was begun in.
    done = subprocess.run(
        [*command, "--out", "/proc/self/cwd/sweep"],
        env=dict(head.environment) | {"RAY_ADDRESS": head.gcs},
        cwd=head.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr[-3000:]
    [error] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"the node {ADDRESSES[1]} does not see this folder" in error
    assert "name a folder on storage that all nodes share" in error
    assert not (head.folder / "sweep/trials").exists()


def test_a_node_that_joins_later_and_does_not_see_the_folder_is_named(
    command: list[str], tmp_path: Path
) -> None:
    """A cluster that starts from nothing: when the sweep checks its nodes, there are none but the head."""
    with own_head(options=["--num-cpus", "0"], environment=environment_of_nodes()) as head:
        out, log = head.folder / "sweep", tmp_path / "driver.log"
        with log.open("wb") as file:
            driver = subprocess.Popen(
                [*command, "--out", "/proc/self/cwd/sweep", "--max-concurrent", "1"],
                env=dict(head.environment) | {"RAY_ADDRESS": head.gcs},
                cwd=head.folder,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for(lambda: driver.poll() is not None or (out / "sweep.json").exists())
            assert driver.poll() is None, log.read_text()[-3000:]
            elsewhere = tmp_path / "elsewhere"
            elsewhere.mkdir()
            with own_node(head, ADDRESSES[1], ["--num-cpus", "1"], elsewhere):
                assert driver.wait(400) == 2, log.read_text()[-3000:]
            assert not list(out.glob("trials/*/outcome.json"))
        finally:
            end(driver.pid)
    assert f"the node {ADDRESSES[1]} does not see this folder" in log.read_text()
    assert not (elsewhere / "sweep").exists()


def test_a_trial_that_loses_its_node_is_restarted(
    nodes: tuple[Head, list[int]], command: list[str], tmp_path: Path
) -> None:
    head, started = nodes
    out = tmp_path / "sweep"

    def steps() -> dict[str, list[int]]:
        logs = {path.parent.parent.name: path for path in out.glob("trials/*/*/log.jsonl")}
        return {key: [row["step"] for row in read_lines(path) if "loss" in row] for key, path in logs.items()}

    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [*command, "--search", "grid", "--out", str(out)],
            env=dict(head.environment) | {"RAY_ADDRESS": head.gcs},
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        # Both nodes have a trial under way, and each trial a checkpoint.
        wait_for(lambda: driver.poll() is not None or sum(len(s) >= 10 for s in steps().values()) >= 2)
        assert driver.poll() is None, "the sweep was over before a node could be lost"
        lose(started[0])
        assert driver.wait(400) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    finally:
        end(driver.pid)
    assert [trial.state for trial in read_trials(plan_of(out))] == ["finished"] * 3
    assert all(taken == list(range(1, taken[-1] + 1)) for taken in steps().values())
    # The best settings were trained again on a node with CPUs, not beside the driver.
    [winner] = list_tasks(head.dashboard, filters=[("name", "=", "_train_as_a_trial")])
    assert winner.state == "FINISHED"
