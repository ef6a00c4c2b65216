"""Runs and sweeps in object storage, over HTTP: with workers, a killed driver, another machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayner.files.fetching import local
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from tests.gated import open_gate
from tests.object_storage import BUCKET, Storage, steps_at
from tests.runtime.training.several_workers import toy_values
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.waiting import below, command_of, is_alive, wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

HOME = f"s3://{BUCKET}/clusters"


def command(machine: Path, *arguments: object) -> subprocess.Popen[str]:
    """`rayner` in a process of its own, on a machine that keeps what it fetches in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "rayner", *map(str, arguments), "--json"],
        env=os.environ | {"RAYNER_LOCAL": str(machine)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=800)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])


def test_two_workers_whose_driver_is_killed_go_on_on_another_machine(
    storage: Storage, tmp_path: Path
) -> None:
    rate, gate = 1e-2, tmp_path / "gate"
    values = toy_values(tmp_path, "gated", checkpoint_every=2, head_learning_rate=rate)
    values |= {"gate": str(gate), "gate_step": 5}
    recipe, place = tmp_path / "recipe.yaml", f"{HOME}/run"
    recipe.write_text(yaml.safe_dump(values))
    arguments = ("train", recipe, "--out", place, "--workers", 2)
    # The server dies as the run puts its first state in place, and comes back; the workers go on.
    died: list[str] = []
    died = storage.dies_at(lambda method, path: not died and method == "PUT" and "_manifest" in path)
    killed = command(tmp_path / "one", *arguments)

    def begun() -> bool:
        assert killed.poll() is None, killed.communicate()[1][-3000:]
        return steps_at(place) >= 4

    wait_for(begun, 500, pause=0.5)
    workers = [process for process in below(killed.pid) if "RayTrainWorker" in command_of(process)]
    assert workers
    assert died
    killed.kill()
    killed.communicate()
    # They outlive the driver by some seconds, and would take steps beside those of the next.
    wait_for(lambda: not any(map(is_alive, workers)))
    seen = steps_at(place)
    open_gate(gate, rate)
    result = result_of(command(tmp_path / "other", *arguments))
    assert result["checkpoint"] == f"{place}/best"
    assert 4 <= seen < result["steps"]
    logged = [json.loads(line) for line in local(f"{place}/log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged if "loss" in row] == list(range(1, result["steps"] + 1))
    whole = train(parse_recipe(values, "recipe"), tmp_path / "whole", workers=0)
    assert whole["steps"] == result["steps"]
    assert largest_difference(weights_of(local(f"{place}/last")), weights_of(tmp_path / "whole/last")) < 1e-3


def test_a_sweep_at_a_uri(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "space.py").write_text('def space(): return {"training.head_learning_rate": [1e-3, 0.1]}\n')
    recipe, place = tmp_path / "recipe.yaml", f"{HOME}/sweep"
    recipe.write_text(yaml.safe_dump(toy_values(tmp_path)))
    arguments = ("tune", tmp_path / "space.py", recipe, "--out", place, "--metric", "f1", "--search", "grid")
    result = result_of(command(tmp_path / "one", *arguments))
    assert result["best"] == f"{place}/best.yaml"
    assert result["winner"]["checkpoint"].startswith(place)
    again = result_of(command(tmp_path / "other", *arguments))
    assert again["score"] == result["score"]
    page = tmp_path / "report.html"
    result_of(command(tmp_path / "third", "report", place, "--out", page))
    assert "<html" in page.read_text()
