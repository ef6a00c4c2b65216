"""What every task must hold to, over all records of the registry and one of another package."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rayner.data.example_sets import ExampleSet
from rayner.errors import InputError
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.training import loop as worker
from rayner.runtime.training.gradients import Backward
from rayner.runtime.training.train import train
from rayner.tasks.base import Metric, Progress
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, task_of, tasks, train_task
from tests.runtime.training.several_workers import spawn, tiny_examples, train_in_float64
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.tasks.small_recipes import SMALL

TASKS = sorted(tasks())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the recipes' files and the runs of this module lie."""
    return tmp_path_factory.mktemp("contract")


@pytest.fixture(scope="module")
def recipes(folder: Path) -> dict[str, dict[str, Any]]:
    """A small recipe for each task."""
    missing = [name for name in TASKS if name not in SMALL]
    assert not missing, f"add a small recipe for {missing}"
    return {name: SMALL[name](folder / name) for name in TASKS}


@pytest.fixture(scope="module")
def runs(folder: Path, recipes: dict[str, dict[str, Any]]) -> Path:
    """Each recipe trained in float64 by one worker and by two, who train all of them one after another."""
    examples = {name: tiny_examples(values, folder / "cache") for name, values in recipes.items()}
    for workers in (1, 2):
        spawn(train_all, workers, folder / f"meeting{workers}", recipes, examples, folder / str(workers))
    return folder


def train_all(recipes: dict[str, dict[str, Any]], examples: dict[str, Path], out: Path) -> None:
    for name, values in recipes.items():
        train_in_float64(values, examples[name], out / name)


def losses(out: Path) -> list[float]:
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


@pytest.mark.parametrize("name", TASKS)
def test_two_workers_equal_one(runs: Path, name: str) -> None:
    one, two = (runs / str(workers) / name for workers in (1, 2))
    assert next(iter(weights_of(one / "last").values())).dtype == torch.float64
    assert largest_difference(weights_of(one / "last"), weights_of(two / "last")) < 1e-9
    assert losses(one) == pytest.approx(losses(two), abs=1e-9)
    assert max(losses(one)) > 0


@pytest.mark.parametrize("name", TASKS)
def test_some_worker_of_two_has_no_share_of_some_step(runs: Path, recipes: Any, name: str) -> None:
    """What makes the test above hold for empty shares, too."""
    task = train_task(parse_recipe(recipes[name], "recipe"))
    examples = ExampleSet(tiny_examples(recipes[name], runs / "cache"))
    sizes = [len(step) for step in task.plan(examples.lengths, examples.groups, 0)]
    assert min(sizes) == 1 or name in ("standardizer", "chains")


@pytest.mark.parametrize("name", TASKS)
def test_killed_and_resumed_equals_undisturbed(
    folder: Path, recipes: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {**recipes[name], "training": {**recipes[name]["training"], "checkpoint_every": 2}}
    recipe, take_step = parse_recipe(values, "recipe"), worker.take_step
    train(recipe, folder / "whole" / name)

    def dying(learner: Any, step: Any, progress: Progress) -> None:
        if progress.step == 3:
            raise KeyboardInterrupt
        take_step(learner, step, progress)

    with monkeypatch.context() as patch:
        patch.setattr(worker, "take_step", dying)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, folder / "cut" / name)
    train(recipe, folder / "cut" / name)
    for part in ("last", "best"):
        one, other = (weights_of(folder / run / name / part) for run in ("whole", "cut"))
        assert largest_difference(one, other) < 1e-6


@pytest.fixture(scope="module")
def checkpoints(folder: Path, recipes: Any) -> dict[str, Path]:
    """A finished run of each recipe."""
    return {
        name: Path(train(parse_recipe(values, "recipe"), folder / "whole_too" / name)["checkpoint"])
        for name, values in recipes.items()
    }


@pytest.mark.parametrize("name", TASKS)
def test_a_checkpoint_answers_as_the_model_that_was_saved(
    checkpoints: dict[str, Path], tmp_path: Path, name: str
) -> None:
    loaded = load_checkpoint(checkpoints[name], "cpu")
    predictor = loaded.task.scorer(loaded.model)
    assert predictor is not None
    items = list(loaded.task.items("dev"))
    answers = list(predict(predictor, items))
    (tmp_path / "again").mkdir()
    loaded.task.save(loaded.model, tmp_path / "again")
    shutil.copy(checkpoints[name] / "recipe.yaml", tmp_path / "again")
    task = train_task(loaded.recipe, loaded.task.tokenizer if loaded.task._tokenizer else None)
    again = task.scorer(task.load(tmp_path / "again").eval())
    assert again is not None
    assert list(predict(again, items)) == answers
    stored = json.loads((checkpoints[name] / "metrics.json").read_text())
    metric = loaded.task.metric
    assert predictor.evaluate(answers, items)[metric.name] == pytest.approx(stored[metric.name], abs=1e-6)
    assert metric.name in task_of(name).metrics
    assert metric.mode == task_of(name).metrics[metric.name]


@pytest.mark.parametrize("name", TASKS)
def test_order_and_batches_change_no_answer(checkpoints: dict[str, Path], name: str) -> None:
    loaded = load_checkpoint(checkpoints[name], "cpu")
    predictor = loaded.task.scorer(loaded.model)
    assert predictor is not None
    items = list(loaded.task.items("dev"))[:12]
    plain = list(predict(predictor, items))
    backwards = list(predict(predictor, items[::-1], tokens_per_batch=1))[::-1]
    assert [_decided(a) for a in plain] == [_decided(a) for a in backwards]
    np.testing.assert_allclose(
        [s for a in plain for s in _scores(a)], [s for a in backwards for s in _scores(a)], atol=1e-4
    )


def _decided(answer: Any) -> Any:
    if hasattr(answer, "chains"):
        return answer.chains.tolist()
    mentions = getattr(answer, "mentions", None)
    if mentions is not None:
        return [(m.start, m.end, m.type, sorted(name for name, _ in m.types)) for m in mentions]
    return answer.relevant if hasattr(answer, "relevant") else answer.entity_id


def _scores(answer: Any) -> list[float]:
    if hasattr(answer, "chains"):
        return answer.vectors.ravel().tolist()
    mentions = getattr(answer, "mentions", None)
    if mentions is None:
        return [answer.score]
    return [score for m in mentions for score in (m.score or 0.0, *(s for _, s in sorted(m.types)))]


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(("precision", "bound"), [("bfloat16", 2**-5), ("float16", 2**-8)])
def test_a_step_in_half_precision_is_near_one_in_float32(
    folder: Path, recipes: Any, name: str, precision: str, bound: float
) -> None:
    """Relative to the loss: some steps of rounding of 8 and of 11 bits, through two layers."""
    task = train_task(parse_recipe(recipes[name], "recipe"))
    examples = ExampleSet(tiny_examples(recipes[name], folder / "cache"))
    chosen = np.unique(np.concatenate(list(task.plan(examples.lengths, examples.groups, 0))[:4]))
    batch = task.collate(examples.fetch(chosen), [(1, 0, int(i)) for i in chosen])
    torch.manual_seed(1)
    model, progress = task.build().train(), Progress(0, 10, 0, 1)
    counts = task.counts(batch, progress)
    factors = {part: torch.tensor(1 / counts[part] if counts.get(part) else 0.0) for part in task.weights}
    found = {}
    for used in ("float32", precision):
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        model.zero_grad()
        found[used] = Backward(task, model, scaler, used, torch.device("cpu"))([batch], progress, factors)
        assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
    exact, rounded = found["float32"].double(), found[precision].double()
    assert float(exact.sum()) > 0
    assert float((exact - rounded).abs().max()) <= bound * float(exact.abs().max())


@pytest.mark.parametrize("name", TASKS)
def test_an_option_that_it_lacks_is_refused_by_name(checkpoints: dict[str, Path], name: str) -> None:
    with pytest.raises(InputError, match=f"sharpness: is no option of a {name}"):
        evaluate(checkpoints[name], Path("nowhere"), options={"sharpness": 3})


@pytest.mark.parametrize("name", TASKS)
def test_a_task_pickles_and_its_plan_is_pure(recipes: Any, name: str) -> None:
    recipe = parse_recipe(recipes[name], "recipe")
    task = pickle.loads(pickle.dumps(train_task(recipe)))
    lengths = np.arange(40) % 9 + 3
    groups = np.array([str(i // 4) for i in range(40)], dtype=object)
    for given in (None, groups):
        if given is None and name == "standardizer":
            continue
        plans = [[s.tolist() for s in train_task(recipe).plan(lengths, given, epoch)] for epoch in (0, 0, 1)]
        assert plans[0] == plans[1] == [s.tolist() for s in task.plan(lengths, given, 0)]
        assert plans[0] != plans[2]
        assert len(plans[0]) == len(plans[2])
        assert sorted({i for step in plans[2] for i in step}) == list(range(40))


def test_a_metric_has_a_direction() -> None:
    more, less = Metric("f1"), Metric("perplexity", "min")
    assert more.is_better(0.1, None)
    assert more.is_better(0.2, 0.1)
    assert not more.is_better(0.1, 0.1)
    assert less.is_better(3.0, 4.0)
    assert not less.is_better(4.0, 3.0)
