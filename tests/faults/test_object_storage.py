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

from rayner.errors import InputError, StorageError
from rayner.files.fetching import local
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from tests.object_storage import BUCKET, Storage
from tests.runtime.training.several_workers import tiny_recipe
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

HOME = f"s3://{BUCKET}/clusters"


def command(machine: Path, *arguments: object) -> subprocess.Popen[str]:
    """`rayner` in a process of its own, on a machine that keeps what it fetches in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "rayner.cli", *map(str, arguments), "--json"],
        env=os.environ | {"RAYNER_LOCAL": str(machine)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=800)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])


def steps_in(place: str) -> int:
    try:
        return json.loads(local(f"{place}/last/state/state.json").read_text())["step"]
    except (InputError, StorageError):
        return 0


def test_two_workers_whose_driver_is_killed_go_on_on_another_machine(
    storage: Storage, tmp_path: Path
) -> None:
    values = tiny_recipe(tmp_path, "tagger", epochs=30, checkpoint_every=2)
    recipe, place = tmp_path / "recipe.yaml", f"{HOME}/run"
    recipe.write_text(yaml.safe_dump(values))
    arguments = ("train", recipe, "--out", place, "--workers", 2)
    killed = command(tmp_path / "one", *arguments)

    def begun() -> bool:
        assert killed.poll() is None, killed.communicate()[1][-3000:]
        return steps_in(place) >= 4

    wait_for(begun, 500)
    # The server dies as the workers put a state in place, and comes back; they go on.
    died: list[str] = []
    died = storage.dies_at(lambda method, path: not died and method == "PUT" and "_manifest" in path)
    wait_for(lambda: bool(died), 100)
    reached = 1 + steps_in(place)
    wait_for(lambda: killed.poll() is not None or steps_in(place) > reached, 100)
    assert killed.poll() is None, killed.communicate()[1][-3000:]
    killed.kill()
    killed.communicate()
    seen = steps_in(place)
    result = result_of(command(tmp_path / "other", *arguments))
    assert result["checkpoint"] == f"{place}/best"
    assert 4 <= seen < result["steps"]
    logged = [json.loads(line) for line in local(f"{place}/log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged if "loss" in row] == list(range(1, result["steps"] + 1))
    whole = train(parse_recipe(values, "recipe"), tmp_path / "whole", workers=0)
    assert whole["steps"] == result["steps"]
    assert largest_difference(weights_of(local(f"{place}/last")), weights_of(tmp_path / "whole/last")) < 1e-3


def test_a_sweep_at_a_uri(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "space.py").write_text('def space(): return {"training.learning_rate": [1e-3, 5e-3]}\n')
    recipe, place = tmp_path / "recipe.yaml", f"{HOME}/sweep"
    recipe.write_text(yaml.safe_dump(tiny_recipe(tmp_path, "tagger")))
    arguments = ("tune", tmp_path / "space.py", recipe, "--out", place, "--metric", "f1", "--search", "grid")
    result = result_of(command(tmp_path / "one", *arguments))
    assert result["best"] == f"{place}/best.yaml"
    assert result["winner"]["checkpoint"].startswith(place)
    again = result_of(command(tmp_path / "other", *arguments))
    assert again["score"] == result["score"]
    page = tmp_path / "report.html"
    result_of(command(tmp_path / "third", "report", place, "--out", page))
    assert "<html" in page.read_text()
