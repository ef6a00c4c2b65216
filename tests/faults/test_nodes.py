"""A training on two nodes of a cluster loses one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.own_ray import Nodes, end
from tests.faults.seen import FOLDER_VARIABLE, rows, taken
from tests.runtime.training.several_workers import toy_values
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.waiting import wait_for

FREE = 10**9
"""A limit that no run reaches."""

DRIVER = f"""
import os, sys
from pathlib import Path
import ray
from rayner.tasks.registry import load_recipe
from rayner.runtime.training.train import train
ray.init(
    address=os.environ["RAY_ADDRESS"],
    runtime_env={{
        "worker_process_setup_hook": "tests.faults.seen.record",
        "env_vars": {{"{FOLDER_VARIABLE}": os.environ["{FOLDER_VARIABLE}"]}},
    }},
)
train(load_recipe(sys.argv[1]), Path(sys.argv[2]))
"""


ALONE = """
import sys
from pathlib import Path
from rayner.tasks.registry import load_recipe
from rayner.runtime.training.train import train
from tests.faults.seen import record
record()
train(load_recipe(sys.argv[1]), Path(sys.argv[2]), workers=0)
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("corpus")
    values = toy_values(folder, epochs=5, checkpoint_every=5, head_learning_rate=1e-2)
    return values | {"scaling": {"workers": 2, "resize_seconds": 3}}


@dataclass(frozen=True, slots=True)
class Training:
    """A driver at work: its run's folder, and the folder of what its workers do in each step."""

    process: subprocess.Popen[bytes]
    out: Path
    seen: Path

    def may_go_to(self, step: int) -> None:
        (self.seen / ".limit").write_text(str(step))
        (self.seen / ".limit").replace(self.seen / "limit")

    def wait_for_step(self, step: int, workers: int) -> None:
        """Until so many workers have taken a step that is no earlier."""

        def taken_together() -> bool:
            assert self.process.poll() is None, "the training is over"
            return any(row["step"] >= step and row["workers"] == workers for row in rows(self.seen))

        wait_for(taken_together)

    def finish(self) -> None:
        self.may_go_to(FREE)
        assert self.process.wait(300) == 0, (self.out.parent / "driver.log").read_text()[-3000:]


@contextmanager
def training(nodes: Nodes, values: dict[str, Any], folder: Path, first: int) -> Iterator[Training]:
    """A training that waits before the step `first`."""
    seen = folder / "seen"
    seen.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(values))
    (seen / "limit").write_text(str(first))
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(folder / "recipe.yaml"), str(folder / "run")],
            env=dict(nodes.head.environment) | {"RAY_ADDRESS": nodes.head.gcs, FOLDER_VARIABLE: str(seen)},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Training(process, folder / "run", seen)
    finally:
        end(process.pid)
        process.wait()


@pytest.fixture(scope="module")
def undisturbed(recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training in one process, whose steps are written down as those of the others."""
    folder = tmp_path_factory.mktemp("undisturbed")
    seen = folder / "seen"
    seen.mkdir()
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    (seen / "limit").write_text(str(FREE))
    subprocess.run(
        [sys.executable, "-c", ALONE, str(folder / "recipe.yaml"), str(folder / "run")],
        env=os.environ | {FOLDER_VARIABLE: str(seen)},
        check=True,
    )
    return folder


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_node_is_lost_and_replaced(nodes, recipe, undisturbed, tmp_path) -> None:
    nodes.have(2)
    with training(nodes, recipe, tmp_path, 12) as run:
        run.wait_for_step(11, workers=2)
        nodes.lose_one()
        nodes.start()
        run.finish()
    assert_equal(run, undisturbed, 1e-6)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_run_shrinks_to_one_worker_and_grows_back(nodes, recipe, undisturbed, tmp_path) -> None:
    elastic = recipe | {"scaling": recipe["scaling"] | {"workers": 1, "max_workers": 2}}
    nodes.have(2)
    with training(nodes, elastic, tmp_path, 12) as run:
        run.wait_for_step(11, workers=2)
        nodes.lose_one()
        # The last checkpoint is that of step 20: what two workers do next they have not done yet.
        run.may_go_to(23)
        run.wait_for_step(22, workers=1)
        nodes.start()
        run.wait_for_step(20, workers=2)
        run.finish()
    assert_equal(run, undisturbed, 1e-5)


def assert_equal(run: Training, undisturbed: Path, within: float) -> None:
    """That each step took the same examples, and the same was learned."""
    assert taken(run.seen) == taken(undisturbed / "seen")
    assert largest_difference(weights_of(run.out / "last"), weights_of(undisturbed / "run/last")) < within
