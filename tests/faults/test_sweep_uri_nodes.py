"""A sweep at a URI on two nodes: it works where both see the folder that the driver works in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.util.state import list_actors

from rayner.files.fetching import local
from tests.faults.own_ray import Nodes
from tests.object_storage import BUCKET, Storage, environment
from tests.runtime.training.several_workers import toy_values

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

PLACE = f"s3://{BUCKET}/nodes/shared_trials"
RATES = [1e-2, 0.1]


def sweep(nodes: Nodes, storage: Storage, tmp_path: Path, machine: str) -> subprocess.CompletedProcess[str]:
    """A grid of two trials by a driver that keeps what belongs to a URI in the folder `machine`."""
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(toy_values(tmp_path / "corpus", epochs=1)))
    (tmp_path / "space.py").write_text(f'def space(): return {{"training.head_learning_rate": {RATES}}}')
    files = map(str, (tmp_path / "space.py", tmp_path / "recipe.yaml"))
    variables = {"RAY_ADDRESS": nodes.head.gcs, "RAYNER_LOCAL": machine, **environment(storage.url)}
    return subprocess.run(
        [sys.executable, "-m", "rayner.cli", "tune", *files, "--search", "grid", "--out", PLACE, "--json"],
        env=dict(nodes.head.environment) | variables,
        cwd=nodes.head.folder,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_another_machine_is_named(nodes: Nodes, storage: Storage, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with nodes.one(elsewhere) as (address, _):
        # This path leads each process to the folder that it was begun in.
        done = sweep(nodes, storage, tmp_path, "/proc/self/cwd/machine")
    assert done.returncode == 2, done.stderr[-3000:]
    [error] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"--out {PLACE}: the node {address} does not see this folder" in error
    assert "work at a URI is done in one of this machine" in error


def test_nodes_that_share_the_folder_share_the_trials(nodes: Nodes, storage: Storage, tmp_path: Path) -> None:
    nodes.have(2)
    done = sweep(nodes, storage, tmp_path, str(tmp_path / "driver"))
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["best"], result["trials"]) == (f"{PLACE}/best.yaml", {"finished": 2})
    outcomes = [json.loads(path.read_text())["state"] for path in local(PLACE).glob("trials/*/outcome.json")]
    assert outcomes == ["finished"] * 2
    actors: list[Any] = list_actors(nodes.head.dashboard, detail=True, raise_on_missing_output=False)
    took = [actor for actor in actors if actor.repr_name == "trials of shared_trials"]
    assert len({actor.node_id for actor in took}) == 2, {actor.repr_name for actor in actors}
