"""A training at a URI on machines that share no folder: each has a copy of the run, and any can be lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import obstore
import pytest
import yaml

from rayner.files.fetching import LOCAL_VARIABLE, local
from rayner.files.manifests import decode
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from tests.faults.own_ray import Nodes, lose
from tests.gated import open_gate
from tests.object_storage import BUCKET, Storage, environment, steps_at
from tests.runtime.training.several_workers import toy_values
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

PLACE = f"s3://{BUCKET}/machines/run"


def test_the_machine_of_the_first_worker_is_lost_and_another_takes_its_place(
    nodes: Nodes, storage: Storage, tmp_path: Path
) -> None:
    rate, gate, recipe = 1e-2, tmp_path / "gate", tmp_path / "recipe.yaml"
    values = toy_values(tmp_path / "corpus", "gated", checkpoint_every=2, head_learning_rate=rate)
    values |= {"gate": str(gate), "gate_step": 5}
    recipe.write_text(yaml.safe_dump(values))
    log = (tmp_path / "log").open("w+")
    reached = environment(storage.url)
    nodes.have(0)
    with ExitStack() as stack:

        def machine(name: str) -> int:
            return stack.enter_context(nodes.apart(tmp_path / name, reached))

        processes = {name: machine(name) for name in ("one", "other")}
        variables = {"RAY_ADDRESS": nodes.head.gcs, LOCAL_VARIABLE: str(tmp_path / "driver")}
        driver = subprocess.Popen(
            [sys.executable, "-m", "rayner", "train", recipe, "--out", PLACE, "--workers", "2", "--json"],
            env=os.environ | dict(nodes.head.environment) | reached | variables,
            cwd=nodes.head.folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        stack.callback(driver.kill)

        def begun() -> bool:
            assert driver.poll() is None, Path(log.name).read_text()[-3000:]
            return steps_at(PLACE) >= 4

        wait_for(begun, 500, pause=0.5)
        [first] = [name for name in processes if list((tmp_path / name).glob("work/*/run/log.jsonl"))]
        lose(processes[first])
        machine("third")
        open_gate(gate, rate)
        told, _ = driver.communicate(timeout=600)
    said = Path(log.name).read_text()
    assert driver.returncode == 0, said[-3000:]
    result = json.loads(told.splitlines()[-1])
    assert result["checkpoint"] == f"{PLACE}/best"
    assert f"step {result['steps']}/{result['steps']}" in said
    logged = [json.loads(line) for line in local(f"{PLACE}/log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged if "loss" in row] == list(range(1, result["steps"] + 1))
    manifest = decode(bytes(obstore.get(storage.store(), "machines/run/_manifest.json").bytes()), PLACE)
    # Two first workers wrote there, one after another, and then the driver.
    assert manifest.attempt >= 3
    whole = train(parse_recipe(values, "recipe"), tmp_path / "whole", workers=0)
    assert whole["steps"] == result["steps"]
    assert largest_difference(weights_of(local(f"{PLACE}/last")), weights_of(tmp_path / "whole/last")) < 1e-3
