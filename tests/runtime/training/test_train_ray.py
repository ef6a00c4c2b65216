"""Training on Ray Train workers, and what happens when they die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray.train
import torch
import yaml

from rayner.config.recipe_files import dump_recipe
from rayner.errors import CorpusError, InputError, RaynerError
from rayner.runtime.elsewhere import WAIT_VARIABLE
from rayner.runtime.training.example_building import build_examples
from rayner.runtime.training.ray_workers import work_on_cluster
from rayner.runtime.training.train import train
from rayner.runtime.training.train_call import Launch
from rayner.runtime.training.training_progress import Lines
from rayner.tasks.registry import parse_recipe, train_task
from tests.gated import open_gate
from tests.runtime.training.several_workers import toy_values
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.tasks.standardizer.small_names import small_recipe
from tests.waiting import below, command_of, is_alive, wait_for


def steps_logged(out: Path) -> list[int]:
    path = out / "log.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [row["step"] for line in lines if line.endswith("}") and "loss" in (row := json.loads(line))]


@pytest.mark.usefixtures("ray_cluster")
def test_two_workers_train_one_model_and_read_no_file_of_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Paths count from the driver's folder, and the workers are in another.
    monkeypatch.chdir(tmp_path)
    values = small_recipe(Path("."), training={"tokens_per_forward": 60})
    result = train(parse_recipe(values, "recipe"), tmp_path / "run", workers=2)
    assert result["metrics"]["linkable"] == 10
    assert (tmp_path / "run/best/standardizer.json").is_file()
    assert steps_logged(tmp_path / "run") == list(range(1, result["steps"] + 1))
    told = ray.train.Result.from_path(tmp_path / "run")
    assert told.checkpoint is not None
    assert told.checkpoint.path == str(tmp_path / "run/last")
    assert told.metrics is not None
    assert told.metrics["step"] == result["steps"]
    assert 0 < told.metrics["dev/mrr"] <= result["metrics"]["mrr"]
    assert train(parse_recipe(values, "recipe"), tmp_path / "run", workers=2) == result


@pytest.mark.usefixtures("ray_cluster")
def test_workers_that_have_no_room_are_refused_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, "0.5")
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "0.5")
    values = toy_values(tmp_path) | {"scaling": {"cpus_per_worker": 1000}}
    recipe, out = parse_recipe(values, "recipe"), tmp_path / "run"
    out.mkdir()
    examples = build_examples(train_task(recipe), tmp_path / "cache")
    with pytest.raises(InputError, match=r"no room for 2 x cpus 1000\.0 for 0\.5 s; free are"):
        work_on_cluster(Launch(train_task(recipe), out, 2, Lines()), examples, [])


@pytest.mark.faults
@pytest.mark.usefixtures("ray_cluster")
def test_what_a_user_can_correct_is_raised_once_and_as_it_is(tmp_path: Path) -> None:
    values = toy_values(tmp_path, learning_rate=1e30, head_learning_rate=1e30, clip=None)
    with pytest.raises(InputError, match="learning_rate"):
        train(parse_recipe(values, "recipe"), tmp_path / "run", workers=2)
    assert len(steps_logged(tmp_path / "run")) == len(set(steps_logged(tmp_path / "run")))


RATE = 0.1


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A run of two workers that nothing happened to."""

    values: dict[str, Any]
    out: Path
    steps: int

    def waiting(self, gate: Path) -> dict[str, Any]:
        """The recipe of a run that waits in its midst, between two checkpoints."""
        return self.values | {"gate": str(gate), "gate_step": 15}


@pytest.fixture(scope="module")
def undisturbed(ray_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    values = toy_values(folder, "gated", epochs=5, checkpoint_every=10, head_learning_rate=RATE)
    result = train(parse_recipe(values, "recipe"), folder / "run", workers=2)
    return Undisturbed(values, folder / "run", result["steps"])


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_killed_worker_is_replaced(undisturbed: Undisturbed, tmp_path: Path) -> None:
    killed: list[psutil.Process] = []
    gate = tmp_path / "gate"

    def kill() -> None:
        try:
            wait_for(lambda: len(steps_logged(tmp_path / "cut")) >= 15)
            killed.append(training_workers()[0])
            killed[0].kill()
        finally:
            open_gate(gate, RATE)

    thread = threading.Thread(target=kill)
    thread.start()
    recipe = parse_recipe(undisturbed.waiting(gate), "recipe")
    result = train(recipe, tmp_path / "cut", workers=2)
    thread.join()
    assert killed
    assert result["steps"] == undisturbed.steps
    assert largest_difference(weights_of(undisturbed.out / "last"), weights_of(tmp_path / "cut/last")) < 1e-6
    assert steps_logged(tmp_path / "cut") == list(range(1, result["steps"] + 1))


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_killed_driver_is_started_again_and_goes_on(
    undisturbed: Undisturbed, joining: dict[str, str], tmp_path: Path
) -> None:
    recipe, out, gate = tmp_path / "recipe.yaml", tmp_path / "cut", tmp_path / "gate"
    recipe.write_text(yaml.safe_dump(undisturbed.waiting(gate)))

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(recipe), str(out)], cwd=tmp_path, env=joining
        )

    with start() as process:
        try:
            wait_for(lambda: len(steps_logged(out)) >= 15, process=process)
            workers = training_workers()
        finally:
            process.send_signal(signal.SIGKILL)
    # They outlive the driver by some seconds, and would take steps beside those of the next.
    assert workers
    wait_for(lambda: not any(map(is_alive, workers)))
    open_gate(gate, RATE)
    with start() as process:
        assert process.wait() == 0
    assert largest_difference(weights_of(undisturbed.out / "last"), weights_of(out / "last")) < 1e-6


DRIVER = """
import sys
from pathlib import Path
from rayner.tasks.registry import load_recipe
from rayner.runtime.training.train import train
train(load_recipe(sys.argv[1]), Path(sys.argv[2]), workers=2)
"""


def training_workers() -> list[psutil.Process]:
    """The processes of Ray Train's workers below this one."""
    return [process for process in below(os.getpid()) if "RayTrainWorker" in command_of(process)]


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize(
    ("failure", "raised", "starts"),
    [
        (CorpusError("corpus.jsonl:3", "has no text", "write one"), CorpusError, 1),
        (ValueError("a broken matrix"), RaynerError, 2),
    ],
)
def test_what_fails_on_one_worker_ends_all(
    tmp_path: Path, failure: Exception, raised: type[Exception], starts: int
) -> None:
    values = toy_values(tmp_path) | {"scaling": {"max_failures": 1}}
    recipe, out = parse_recipe(values, "recipe"), tmp_path / "run"
    out.mkdir()
    (out / "recipe.yaml").write_text(dump_recipe(recipe))
    task = train_task(recipe)
    collate = task.collate

    def failing(*arguments: Any) -> Any:
        if torch.distributed.get_rank() == 1:
            with (out / "starts").open("a") as file:
                file.write("x")
            raise failure
        return collate(*arguments)

    task.collate = failing  # type: ignore[method-assign]
    examples = build_examples(train_task(recipe), tmp_path / "cache")
    with pytest.raises(raised, match=rf"{failure.args[0].split(':')[0]}") as caught:
        work_on_cluster(Launch(task, out, 2, Lines()), examples, [])
    assert "worker 1 of 2" in str(caught.value)
    assert len((out / "starts").read_text()) == starts
