"""What the workers of a training do with dev at an evaluation: each item is read by one of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rayner.runtime.training.dev_answers import score
from rayner.runtime.training.distributed import rank
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.standardizer import encoding
from tests.runtime.training.several_workers import spawn, tiny_recipe
from tests.tasks.standardizer.small_names import small_recipe

CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "recognizer": lambda folder: _of_documents(folder, "recognizer", model={"threshold": "tuned"}),
    "recognizer, calibrated": lambda folder: _of_documents(
        folder, "recognizer", calibration={"fraction": 0.3}
    ),
    "typer": lambda folder: _of_documents(folder, "typer", decoding={"threshold": "tuned"}),
    "typer, per type": lambda folder: _of_documents(folder, "typer", decoding={"threshold": "per_type"}),
    "standardizer": lambda folder: _of_names(folder),
}


def _of_documents(folder: Path, task: str, **parts: Any) -> dict[str, Any]:
    return {**tiny_recipe(folder, task), **parts}


def _of_names(folder: Path) -> dict[str, Any]:
    """Without "hudson" beside "Hudson": they have the same sub-words, by which strings are counted."""
    values = small_recipe(folder)
    dev = Path(values["mentions"]["dev"][0])
    rows = [line for line in dev.read_text().splitlines(keepends=True) if '"hudson"' not in line]
    dev.write_text("".join(rows))
    return values


def evaluate(recipes: dict[str, dict[str, Any]], out: Path) -> None:
    """Fit and score each on dev as the loop does; leaves what this worker read, and what was found."""
    out.mkdir(parents=True, exist_ok=True)
    for name, values in recipes.items():
        task = train_task(parse_recipe(values, "recipe"))
        dev, apart = list(task.items("dev")), task.calibration_units()
        apart = [item for unit in apart for item in task.read(unit)]
        torch.manual_seed(1)
        model = task.build().double().eval()
        read: Counter[str] = Counter()
        _count(task, read)
        with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
            # Batches of few strings, of which there are some for each worker.
            patch.setattr(encoding, "TOKENS_PER_CHUNK", 10)
            task.fit(model, dev)
            task.calibrate(model, apart)
            fitting = Counter(read)
            predictor = task.scorer(model)
            assert predictor is not None
            metrics, answers = score(predictor, dev)
        kept = {key: value for key, value in metrics.items() if isinstance(value, float)}
        thresholds = getattr(model, "thresholds", torch.zeros(0)).flatten().tolist()
        fitted = str(getattr(task, "fitted", getattr(task, "calibration", None)))
        row = {"fit": fitting, "all": read, "metrics": kept, "thresholds": thresholds, "fitted": fitted}
        row |= {"answers": len(answers), "dev": len(dev)}
        (out / f"{name}-{rank()}.json").write_text(json.dumps(row))


def _count(task: Any, read: Counter[str]) -> None:
    if hasattr(task, "encode"):
        padded = task.padded

        def padding(rows: Sequence[np.ndarray]) -> Any:
            read.update(str(row.tolist()) for row in rows)
            return padded(rows)

        task.padded = padding
    else:
        windows_of = task.windows_of

        def reading(document: Any) -> Any:
            read[document.document_id] += 1
            return windows_of(document)

        task.windows_of = reading


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, list[Any]]]:
    """By number of workers and recipe, what each worker left."""
    folder = tmp_path_factory.mktemp("evaluations")
    recipes = {name: make(folder / name) for name, make in CASES.items()}
    for workers in (1, 2):
        spawn(evaluate, workers, folder / f"meeting{workers}", recipes, folder / str(workers))
    return {
        workers: {
            name: [
                json.loads((folder / str(workers) / f"{name}-{i}.json").read_text()) for i in range(workers)
            ]
            for name in CASES
        }
        for workers in (1, 2)
    }


@pytest.mark.parametrize("name", CASES)
def test_what_is_fitted_and_scored_does_not_depend_on_the_workers(rows: Any, name: str) -> None:
    (one,), (first, second) = rows[1][name], rows[2][name]
    for other in (first, second):
        assert other["metrics"] == pytest.approx(one["metrics"], abs=1e-6)
        assert other["thresholds"] == pytest.approx(one["thresholds"], abs=1e-9)
    assert first["fitted"] == second["fitted"]


@pytest.mark.parametrize("name", CASES)
def test_each_item_of_dev_is_fitted_on_by_one_worker(rows: Any, name: str) -> None:
    (alone,), (first, second) = rows[1][name], rows[2][name]
    assert Counter(first["fit"]) + Counter(second["fit"]) == Counter(alone["fit"])
    assert set(alone["fit"].values()) == {1}
    assert abs(len(first["fit"]) - len(second["fit"])) <= 2


@pytest.mark.parametrize("name", CASES)
def test_only_the_worker_that_scores_holds_the_answers(rows: Any, name: str) -> None:
    (alone,), (first, second) = rows[1][name], rows[2][name]
    assert alone["answers"] == first["answers"] == alone["dev"]
    assert second["answers"] == 0


def test_a_standardizer_encodes_each_string_once_to_fit_and_to_score(rows: Any) -> None:
    for found in rows[1]["standardizer"]:
        assert found["all"] == found["fit"]
    for found in rows[2]["standardizer"]:
        assert found["all"] == found["fit"]
