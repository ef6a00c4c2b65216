"""A training at a URI on two machines that share no folder: each worker keeps its own copy of the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from rayner.files.fetching import LOCAL_VARIABLE, local
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from tests.faults.own_ray import Nodes
from tests.object_storage import BUCKET, Storage, environment
from tests.runtime.training.several_workers import toy_values
from tests.runtime.training.toy_task import largest_difference, weights_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


def test_workers_on_two_machines_train_one_model(nodes: Nodes, storage: Storage, tmp_path: Path) -> None:
    recipe, place = tmp_path / "recipe.yaml", f"s3://{BUCKET}/machines/run"
    values = toy_values(tmp_path / "corpus", epochs=1, checkpoint_every=2, head_learning_rate=1e-2)
    recipe.write_text(yaml.safe_dump(values))
    machines = [tmp_path / name for name in ("one", "other", "driver")]
    for machine in machines:
        machine.mkdir()
    nodes.have(0)
    reached = environment(storage.url)
    with ExitStack() as stack:
        for machine in machines[:2]:
            stack.enter_context(nodes.one(machine, reached | {LOCAL_VARIABLE: str(machine)}))
        variables = {"RAY_ADDRESS": nodes.head.gcs, LOCAL_VARIABLE: str(machines[2])}
        done = subprocess.run(
            [sys.executable, "-m", "rayner.cli", "train", recipe, "--out", place, "--workers", "2", "--json"],
            env=os.environ | dict(nodes.head.environment) | reached | variables,
            cwd=nodes.head.folder,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["checkpoint"] == f"{place}/best"
    assert f"step {result['steps']}/{result['steps']}" in done.stderr
    for machine in machines[:2]:
        assert list(machine.rglob("work/*/run/recipe.yaml")), "no worker was on this machine"
    logged = [json.loads(line) for line in local(f"{place}/log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged if "loss" in row] == list(range(1, result["steps"] + 1))
    whole = train(parse_recipe(values, "recipe"), tmp_path / "whole", workers=0)
    assert whole["steps"] == result["steps"]
    assert largest_difference(weights_of(local(f"{place}/last")), weights_of(tmp_path / "whole/last")) < 1e-3
