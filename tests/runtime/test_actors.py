"""Work on a pool of actors: what comes back, in which order, and what a command makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import CorpusError, InputError, RaynerError
from rayner.runtime.actors import LOSSES, each_on_actors
from rayner.runtime.elsewhere import WAIT_VARIABLE, Needs
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from tests.ray_work import Holder
from tests.runtime.training.several_workers import tiny_recipe
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ray_cluster")


@pytest.mark.faults
def test_results_come_in_order_and_others_take_over_from_an_actor_that_dies(tmp_path: Path) -> None:
    """Which actor has which part is left open: on a busy machine one may start when the other has most."""
    answered, died = tmp_path / "answered", tmp_path / "died"

    def load() -> Any:
        def work(part: int) -> tuple[int, int]:
            if part == 3 and not died.exists():
                wait_for(answered.exists)
                died.write_text(str(os.getpid()))
                os._exit(1)
            return part, os.getpid()

        return work

    found = []
    for result in each_on_actors(load, range(12), 2, Needs(cpus=0.5)):
        found.append(result)
        if len(found) == 2:
            answered.touch()
    assert [part for part, _ in found] == list(range(12))
    assert int(died.read_text()) not in {process for _, process in found[3:]}


@pytest.mark.faults
def test_a_part_whose_process_is_lost_each_time_is_given_up(tmp_path: Path) -> None:
    lost, answered = tmp_path / "lost", tmp_path / "answered"
    lost.mkdir()

    def load() -> Any:
        def work(part: int) -> int:
            if part == 2:
                wait_for(answered.exists)
                (lost / str(os.getpid())).touch()
                os._exit(1)
            return part

        return work

    found = each_on_actors(load, range(6), 2, Needs(cpus=0.5))
    assert [next(found), next(found)] == [0, 1]
    answered.touch()
    with pytest.raises(RaynerError, match=f"lost its node or process {LOSSES + 1} times"):
        next(found)
    assert len(list(lost.iterdir())) == LOSSES + 1


@pytest.mark.faults
def test_a_lost_actor_that_no_node_has_room_for_again_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    gate = tmp_path / "gate"

    def load() -> Any:
        def work(part: int) -> int:
            if part:
                wait_for(gate.exists)
                os._exit(1)
            return part

        return work

    # Who waits for room first has it first.
    cpus = ray.cluster_resources()["CPU"]
    found = each_on_actors(load, range(2), 1, Needs(cpus=cpus))
    assert next(found) == 0
    other = ray.remote(num_cpus=cpus)(Holder).remote()
    monkeypatch.setenv(WAIT_VARIABLE, "1")
    monkeypatch.setattr("rayner.runtime.actors.SECONDS_TO_START", 0.5)
    gate.touch()
    with pytest.raises(InputError, match="no node has had room"):
        next(found)
    ray.kill(other)  # pyright: ignore[reportArgumentType]


def test_what_starts_an_actor_or_reads_a_corpus_imports_no_torch(root: Path) -> None:
    """It would take a second or two in each of a cluster's processes."""
    modules = "rayner.runtime.actors, rayner.runtime.corpora.convert"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    environment = {"PYTHONPATH": str(root / "platform"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "False", done.stderr


def test_an_error_of_the_input_is_raised_as_it_is() -> None:
    def load() -> Any:
        raise CorpusError("corpus.jsonl:3", "has no text", "write one")

    with pytest.raises(CorpusError, match=r"corpus\.jsonl:3: has no text; write one"):
        list(each_on_actors(load, [1], 1, Needs(cpus=0.5)))


def test_an_evaluation_on_actors_equals_that_of_one_process(tmp_path: Path) -> None:
    values = tiny_recipe(tmp_path, "tagger", epochs=5)
    train(parse_recipe(values, "recipe"), tmp_path / "run", workers=0)
    corpus = [Path(path) for path in values["corpus"]["dev"]]
    alone = evaluate(tmp_path / "run/best", corpus)
    assert alone["f1"] > 0
    assert evaluate(tmp_path / "run/best", corpus, workers=2) == alone
