"""Work on a pool of actors: what comes back, in which order, and what a command makes of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import CorpusError
from rayner.runtime.actors import each_on_actors
from rayner.runtime.elsewhere import Needs
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from tests.runtime.training.several_workers import tiny_recipe

pytestmark = pytest.mark.usefixtures("ray_cluster")


def test_results_come_in_order_from_every_actor_and_survive_one_that_dies(tmp_path: Path) -> None:
    died = tmp_path / "died"

    def load() -> Any:
        def work(part: int) -> tuple[int, int]:
            if part == 3 and not died.exists():
                died.touch()
                os._exit(1)
            return part, os.getpid()

        return work

    found = list(each_on_actors(load, range(12), 2, Needs(cpus=0.5)))
    assert [part for part, _ in found] == list(range(12))
    assert len({process for _, process in found}) >= 2


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
