"""The folder that a run is written to: what it may not hold or lie in, and what removes no run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import CheckpointError, CorpusError, StorageError
from rayner.runtime.sweeps.space import load_space
from rayner.runtime.sweeps.sweep import sweep
from rayner.runtime.tracking import JsonLines
from rayner.runtime.training import train as training
from rayner.runtime.training.train import train, train_until
from rayner.tasks.registry import parse_recipe
from tests.runtime.training.several_workers import toy_values


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    return toy_values(tmp_path / "corpus", epochs=1)


@pytest.mark.parametrize("key", ["encoder", "corpus"])
def test_a_run_is_not_removed_for_one_that_reads_it(tmp_path: Path, values: dict[str, Any], key: str) -> None:
    result = train(parse_recipe(values, "recipe"), tmp_path / "run", workers=0)
    best = tmp_path / "run" / "best"
    of_run = {"encoder": str(best), "corpus": {"train": [str(best / "evaluation" / "gold.parquet")]}}
    recipe = parse_recipe({**values, key: of_run[key]}, "recipe")
    with pytest.raises(CorpusError, match=rf"--out {tmp_path}/run: holds the input {best}"):
        train(recipe, tmp_path / "run", fresh=True, workers=0)
    assert train(parse_recipe(values, "recipe"), tmp_path / "run", workers=0) == result


@pytest.mark.parametrize("by_space", [False, True])
def test_no_sweep_reads_what_it_removes(tmp_path: Path, values: dict[str, Any], by_space: bool) -> None:
    best = tmp_path / "sweep" / "winner" / "best"
    best.mkdir(parents=True)
    given = {"encoder": [str(best), values["encoder"]]} if by_space else {"training.learning_rate": [0.1]}
    (tmp_path / "space.py").write_text(f"def space(): return {given}")
    recipe = parse_recipe(values if by_space else {**values, "encoder": str(best)}, "recipe")
    with pytest.raises(CorpusError, match=rf"sweep: holds the input {best}; name another folder"):
        sweep(load_space(str(tmp_path / "space.py")), recipe, tmp_path / "sweep", fresh=True)


def test_data_beside_what_a_run_writes_may_stay(tmp_path: Path, values: dict[str, Any]) -> None:
    recipe = parse_recipe(values, "recipe")
    result = train(recipe, tmp_path / "corpus", workers=0)
    assert train(recipe, tmp_path / "corpus", fresh=True, workers=0)["steps"] == result["steps"]


def test_no_run_lies_in_its_corpus(tmp_path: Path, values: dict[str, Any]) -> None:
    values["corpus"] = {"train": [str(tmp_path / "corpus")]}
    with pytest.raises(CorpusError, match=r"lies in the input .*corpus; name a folder outside"):
        train(parse_recipe(values, "recipe"), tmp_path / "corpus" / "run", workers=0)


def test_a_tracking_server_that_is_away_removes_no_run(
    tmp_path: Path, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = parse_recipe(values, "recipe")
    result = train(recipe, tmp_path / "run", workers=0)

    def away(recipe: Any) -> None:
        raise StorageError("MLflow", "is not there", "start it")

    monkeypatch.setattr(training, "check_mlflow", away)
    with pytest.raises(StorageError):
        train(recipe, tmp_path / "run", fresh=True, workers=0)
    assert train(recipe, tmp_path / "run", workers=0) == result


def test_a_best_that_is_gone_is_told_before_the_run_goes_on(tmp_path: Path, values: dict[str, Any]) -> None:
    values["training"]["epochs"] = 2
    recipe = parse_recipe(values, "recipe")
    train_until(1, recipe, tmp_path / "run", workers=0)
    shutil.rmtree(tmp_path / "run" / "best")
    with pytest.raises(
        CheckpointError, match=r"run/best: is missing, though step \d+ of the run was the best"
    ):
        train(recipe, tmp_path / "run", workers=0)


def test_a_damaged_line_of_the_log_stops_no_run(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": \xff\xfe\n{"step": 2}\n')
    JsonLines(path, 2).close()
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2]
