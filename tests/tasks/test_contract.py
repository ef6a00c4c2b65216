"""What every task must hold to, over all records of the registry and one of another package."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from dataclasses import astuple, is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

from rayner.data.batches import share
from rayner.data.example_sets import ExampleSet
from rayner.errors import InputError
from rayner.models.encoder import load_encoder
from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.training.gradients import Backward
from rayner.runtime.training.train import train
from rayner.serving.served_stages import AskedStage, ServedStage
from rayner.tasks.base import Metric, Progress
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.checkpoint_files import write_manifest
from rayner.tasks.encoder_task import encoders
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, tasks, train_task
from rayner.tasks.stage_settings import StageSettings
from tests.killed_training import killed_at
from tests.runtime.training.several_workers import (
    gradients_of,
    keeping_gradients,
    losses,
    spawn,
    tiny_examples,
    train_in_float64,
)
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.tasks.small_recipes import OF_THREE, SMALL

# The other is the toy task again, for tests that make it wait.
TASKS = sorted(tasks().keys() - {"gated"})
RECIPES = sorted(SMALL)
"""Those of all tasks, and those of another loss of a task."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the recipes' files and the runs of this module lie."""
    return tmp_path_factory.mktemp("contract")


@pytest.fixture(scope="module")
def recipes(folder: Path) -> dict[str, dict[str, Any]]:
    """A small recipe for each task, and for its variants."""
    missing = [name for name in TASKS if name not in SMALL]
    assert not missing, f"add a small recipe for {missing}"
    return {name: SMALL[name](folder / name) for name in RECIPES}


@pytest.fixture(scope="module")
def narrow(recipes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Those recipes with a quarter of the width: most of what is learned, stored and exchanged is embeddings
    of words."""
    return {name: {**values, "encoder": "random:8x2"} for name, values in recipes.items()}


@pytest.fixture(scope="module")
def runs(folder: Path, narrow: dict[str, dict[str, Any]]) -> Path:
    """Each recipe trained in float64 by one worker and by more, who train all of them one after another."""
    examples = {name: tiny_examples(values, folder / "cache") for name, values in narrow.items()}
    for workers in (1, 2, 3):
        chosen = {name: values for name, values in narrow.items() if workers in (1, workers_of(name))}
        spawn(train_all, workers, folder / f"meeting{workers}", chosen, examples, folder / str(workers))
    return folder


def train_all(recipes: dict[str, dict[str, Any]], examples: dict[str, Path], out: Path) -> None:
    for name, values in recipes.items():
        train_in_float64(values, examples[name], out / name, keeping_gradients)


def workers_of(name: str) -> int:
    return 3 if name in OF_THREE else 2


@pytest.mark.parametrize("name", RECIPES)
def test_several_workers_equal_one(runs: Path, name: str) -> None:
    one, more = (runs / str(workers) / name for workers in (1, workers_of(name)))
    assert next(iter(weights_of(one / "last").values())).dtype == torch.float64
    for part in ("last", "best"):
        assert largest_difference(weights_of(one / part), weights_of(more / part)) < 1e-9
    assert losses(one) == pytest.approx(losses(more), abs=1e-9)
    assert max(losses(one)) > 0


@pytest.mark.parametrize("name", RECIPES)
def test_the_gradients_of_several_workers_are_those_of_one(runs: Path, name: str) -> None:
    """In every step, also in those that leave a worker without an example."""
    alone = gradients_of(runs / "1" / name / "kept-0")
    assert len(alone) == len(losses(runs / "1" / name))
    assert max(float(g.abs().max()) for part, g in alone[0].items() if "rows" not in part) > 1e-6
    for number in range(workers_of(name)):
        shared = gradients_of(runs / str(workers_of(name)) / name / f"kept-{number}")
        differences = [largest_difference(one, other) for one, other in zip(alone, shared, strict=True)]
        assert max(differences) < 1e-9


@pytest.mark.parametrize("name", RECIPES)
def test_some_worker_has_no_share_of_some_step(runs: Path, narrow: Any, name: str) -> None:
    """What makes the tests above hold for empty shares, too."""
    task = train_task(parse_recipe(narrow[name], "recipe"))
    examples = ExampleSet(tiny_examples(narrow[name], runs / "cache"))
    lengths, workers = examples.lengths, workers_of(name)
    sizes = [
        len(share(step, lengths, workers, number))
        for step in task.plan(lengths, examples.groups, 0)
        for number in range(workers)
    ]
    assert min(sizes) == 0


@pytest.mark.parametrize("name", RECIPES)
def test_killed_and_resumed_equals_undisturbed(
    folder: Path, narrow: Any, checkpoints: dict[str, Path], name: str
) -> None:
    values = narrow[name]
    recipe = parse_recipe({**values, "training": {**values["training"], "checkpoint_every": 4}}, "recipe")
    with killed_at(5):
        train(recipe, folder / "cut" / name)
    train(recipe, folder / "cut" / name)
    for part in ("last", "best"):
        one, other = (weights_of(folder / run / name / part) for run in ("whole", "cut"))
        assert largest_difference(one, other) == 0.0


@pytest.fixture(scope="module")
def checkpoints(folder: Path, narrow: Any) -> dict[str, Path]:
    """A finished run of each recipe."""
    return {
        name: Path(train(parse_recipe(values, "recipe"), folder / "whole" / name)["checkpoint"])
        for name, values in narrow.items()
    }


@pytest.mark.parametrize("name", RECIPES)
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
    assert metric.mode == loaded.record.metrics[metric.name]


@pytest.mark.parametrize("name", TASKS)
def test_transformers_reads_the_encoders_and_the_tokenizer(checkpoints: dict[str, Path], name: str) -> None:
    loaded = load_checkpoint(checkpoints[name], "cpu")
    for place, encoder in encoders(loaded.model).items():
        theirs = AutoModel.from_pretrained(str(checkpoints[name] / place))
        tokenizer = AutoTokenizer.from_pretrained(str(checkpoints[name] / "encoder"))
        given = tokenizer(["Ada took the letter to Oslo.", "A"], padding=True, return_tensors="pt")
        with torch.no_grad():
            ours = encoder(given["input_ids"], given["attention_mask"].bool())
            assert torch.equal(theirs(**given).last_hidden_state, ours)
        assert (
            given["input_ids"][1, :3].tolist()
            == loaded.task.padded([np.array(loaded.task.tokenizer("A")[0], np.int32)])[0][0].tolist()
        )


@pytest.mark.parametrize("name", TASKS)
def test_no_weight_is_stored_twice(checkpoints: dict[str, Path], name: str) -> None:
    loaded = load_checkpoint(checkpoints[name], "cpu")
    stored = weights_of(checkpoints[name])
    weights = loaded.model.state_dict()
    assert len(stored) == len(weights)
    assert sum(w.numel() for w in stored.values()) == sum(w.numel() for w in weights.values())


@pytest.mark.parametrize("name", TASKS)
def test_a_checkpoint_of_one_file_of_weights_is_still_read(
    checkpoints: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """As they were written at efc2ea2: format 1."""
    old = shutil.copytree(checkpoints[name], tmp_path / "old")
    loaded = load_checkpoint(old, "cpu")
    for place in encoders(loaded.model):
        (old / place / "model.safetensors").unlink()
        if place != "encoder":
            shutil.rmtree(old / place)
    save_file(loaded.model.state_dict(), old / "model.safetensors")
    (old / "checkpoint.json").unlink()
    write_manifest(old, name)
    manifest = json.loads((old / "checkpoint.json").read_text())
    (old / "checkpoint.json").write_text(json.dumps({**manifest, "format": 1}))
    weights, found = loaded.model.state_dict(), load_checkpoint(old, "cpu").model.state_dict()
    assert all(torch.equal(found[key], weights[key]) for key in weights)
    if encoders(loaded.model):
        started, trained = (load_encoder(str(place)).state_dict() for place in (old, checkpoints[name]))
        assert all(torch.equal(started[key], trained[key]) for key in trained)


@pytest.mark.parametrize("name", RECIPES)
def test_order_and_batches_change_no_answer(checkpoints: dict[str, Path], name: str) -> None:
    loaded = load_checkpoint(checkpoints[name], "cpu")
    options = loaded.record.options
    # What learned for a few steps is sure of nothing.
    if "shift" in options.model_fields:
        predictor = loaded.predictor(options.of({"shift": -9.0}, name))
    else:
        with torch.no_grad():
            for parameter in loaded.model.parameters():
                parameter += 5.0 * (parameter.numel() == 1)
        predictor = loaded.task.scorer(loaded.model)
    assert predictor is not None
    items = list(loaded.task.items("dev"))[:12]
    plain = list(predict(predictor, items))
    backwards = list(predict(predictor, items[::-1], tokens_per_batch=1))[::-1]
    (decided, scores), (decided_backwards, scores_backwards) = map(_parts, (plain, backwards))
    assert decided == decided_backwards
    assert scores or any(m.chain for document in plain for m in document.mentions)
    np.testing.assert_allclose(scores, scores_backwards, atol=1e-4)


def _parts(value: Any) -> tuple[Any, list[float]]:
    """What an answer of any task decides, and the numbers in it, which rounding may change."""
    if isinstance(value, float | np.floating):
        return None, [float(value)]
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif is_dataclass(value) and not isinstance(value, type):
        value = astuple(value)
    if not isinstance(value, list | tuple):
        return value, []
    # Rounding may change the order of what is sorted by scores, such as candidates.
    parts = sorted(map(_parts, value), key=lambda part: repr(part[0]))
    return [decided for decided, _ in parts], [score for _, scores in parts for score in scores]


LAYERS = 2
"""Of the encoders of all small recipes (`random:32x2`)."""
ROUNDED_PER_LAYER = 12
"""Operations one after another whose results are rounded in a layer: queries and keys, their products,
softmax, means of values, projection, sum, norm, the two matrices of the feed-forward part with the function
between, sum, norm."""
ROUNDED_AROUND = 6
"""Embeddings, their sum and norm before the layers; a head of two matrices and a function after."""
FORWARD = LAYERS * ROUNDED_PER_LAYER + ROUNDED_AROUND


def rounding_bound(unit: float, operations: int) -> float:
    """The relative error of so many rounded operations one after another, n u / (1 - n u) (Higham 2002,
    Accuracy and Stability of Numerical Algorithms, lemma 3.1); sums within them are of float32."""
    return operations * unit / (1 - operations * unit)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(("precision", "unit"), [("bfloat16", 2**-8), ("float16", 2**-11)])
def test_a_step_in_half_precision_is_near_one_in_float32(
    folder: Path, recipes: Any, name: str, precision: str, unit: float
) -> None:
    """Each part of the loss by the roundings of a forward pass, the gradients by twice as many: backward,
    each operation is rounded once more. `unit` is the unit roundoff of 8 and of 11 bits."""
    task = train_task(parse_recipe(recipes[name], "recipe"))
    examples = ExampleSet(tiny_examples(recipes[name], folder / "cache"))
    chosen = np.unique(np.concatenate(list(task.plan(examples.lengths, examples.groups, 0))[:4]))
    batch = task.collate(examples.fetch(chosen), [(1, 0, int(i)) for i in chosen])
    torch.manual_seed(1)
    model, progress = task.build().train(), Progress(0, 10, 0, 1)
    for module in model.modules():
        if hasattr(module, "set_dropout"):
            module.set_dropout(0.0)  # type: ignore[operator]
    counts = task.counts(batch, progress)
    factors = {part: torch.tensor(1 / counts[part] if counts.get(part) else 0.0) for part in task.weights}
    parts, gradients = {}, {}
    for used in ("float32", precision):
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        model.zero_grad()
        parts[used] = Backward(task, model, scaler, used, torch.device("cpu"))([batch], progress, factors)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        gradients[used] = torch.cat([grad.double().flatten() for grad in grads])
    exact, rounded = parts["float32"].double(), parts[precision].double()
    assert float(exact.sum()) > 0
    assert ((exact - rounded).abs() <= rounding_bound(unit, FORWARD) * exact.abs()).all()
    difference = (gradients["float32"] - gradients[precision]).norm() / gradients["float32"].norm()
    assert 0 < float(difference) <= rounding_bound(unit, 2 * FORWARD)


@pytest.mark.parametrize("name", [name for name in TASKS if tasks()[name].answers])
def test_an_option_that_it_lacks_is_refused_by_name(checkpoints: dict[str, Path], name: str) -> None:
    with pytest.raises(InputError, match=f"sharpness: is no option of a {name}"):
        evaluate(checkpoints[name], Path("nowhere"), options={"sharpness": 3})
    with pytest.raises(InputError, match=f"sharpness: is no option of a {name}"):
        annotate(checkpoints[name], ["nowhere"], "nowhere", options={"sharpness": 3}, workers=0)
    with pytest.raises(InputError, match=f"sharpness: is no option of a {name}"):
        served_of(checkpoints[name]).options(sharpness=3)


def served_of(checkpoint: Path) -> AskedStage:
    """As a replica holds it; nothing is answered here."""
    loaded, nothing = load_checkpoint(checkpoint, "cpu"), cast(Any, None)
    settings = StageSettings(checkpoint, loaded.record.options())
    return AskedStage(ServedStage(settings, "", loaded, nothing), nothing)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_pickles_and_its_plan_is_pure(folder: Path, recipes: Any, name: str) -> None:
    recipe = parse_recipe(recipes[name], "recipe")
    task = pickle.loads(pickle.dumps(train_task(recipe)))
    lengths = np.arange(40) % 9 + 3
    is_grouped = ExampleSet(tiny_examples(recipes[name], folder / "cache")).groups is not None
    groups = np.array([str(i // 4) for i in range(40)], dtype=object)
    for given in (None, groups):
        if given is None and is_grouped:
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
    assert more.is_better(0.2, math.nan)
    assert not more.is_better(math.nan, 0.1)
    assert not more.is_better(math.nan, math.nan)
    assert not more.is_better(0.1, 0.1)
    assert less.is_better(3.0, 4.0)
    assert not less.is_better(4.0, 3.0)
