"""A recognizer that learns from itself with averaged weights, and spans of which nothing is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rayner.data.schema import UNKNOWN, Mention
from rayner.errors import RecipeError
from rayner.losses.self_training import distillation, teacher_labels
from rayner.models.precision import autocast
from rayner.models.precision_choice import set_precision
from rayner.runtime.training.learner import build_learner, take_step
from rayner.runtime.training.steps import Step
from rayner.runtime.training.train import train
from rayner.tasks.base import Progress
from rayner.tasks.registry import parse_recipe
from tests.killed_training import killed_at
from tests.runtime.training.several_workers import losses, tiny_recipe
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.tasks.small import built, collated, corpus, marked, recognizer, tagger

SETTINGS = {"training": {"average": 0.9, "epochs": 3}, "self_training": {"start_epoch": 2, "confidence": 0.6}}


def in_epoch(epoch: int, average: Any) -> Progress:
    return Progress(10 * epoch, 30, epoch, 3, average=average)


def test_before_its_epoch_the_labels_alone_are_learned_from() -> None:
    task, plain = recognizer(**SETTINGS), recognizer()
    model, batch = built(task).train(), collated(task, corpus())
    weights = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    sums = task.forward(model, batch, in_epoch(0, weights)).sums
    assert sums["teacher"] == 0
    for part, value in plain.forward(model, batch, in_epoch(0, None)).sums.items():
        torch.testing.assert_close(sums[part], value)


def test_patience_does_not_end_a_training_before_the_teacher_begins() -> None:
    assert recognizer(**SETTINGS).patience_epoch == 2
    assert recognizer().patience_epoch == 1


def test_from_then_on_the_teacher_is_the_model_with_averaged_weights() -> None:
    task = recognizer(**SETTINGS, model={"dropout": 0.1})
    model, other = built(task).train(), built(task, seed=1).eval()
    average = {name: p.detach().clone() for name, p in other.named_parameters()}
    batch = collated(task, corpus())
    for seed in (0, 1):
        torch.manual_seed(seed)
        sums = task.forward(model, batch, in_epoch(1, average)).sums
        given = batch.ids, batch.mask, task.inputs(model, task.recipe.types)
        with torch.no_grad():
            labels = teacher_labels(other(*given), batch.targets, 0.6)
        torch.manual_seed(seed)
        torch.testing.assert_close(sums["teacher"], distillation(model(*given), labels))
        assert sums["teacher"] > 0
    assert model.training
    torch.stack(list(sums.values())).sum().backward()
    assert all(weight.grad is None for weight in average.values())
    assert task.counts(batch, in_epoch(1, average))["teacher"] == len(batch.targets.gold)


def test_it_teaches_in_a_step_without_a_mention_too() -> None:
    task = recognizer(**{**SETTINGS, "training": {**SETTINGS["training"], "normalization": "step"}})
    model, other = built(task).train(), built(task, seed=1).eval()
    average = {name: p.detach().clone() for name, p in other.named_parameters()}
    batch = collated(task, [marked("Nobody wrote anything in winter.")])
    taught = task.forward(model, batch, in_epoch(1, average)).sums["teacher"].item()
    learner = build_learner(task, model, None, torch.device("cpu"), "float32")
    take_step(learner, Step([batch], tokens=0, held=0, sizes=[]), in_epoch(1, average))
    parts = learner.meter.read()[1]
    assert parts["teacher"] == pytest.approx(taught) != 0
    assert parts["span"] == 0


def test_a_teacher_in_bfloat16_keeps_no_gradient_from_the_student() -> None:
    """What autocast keeps of weights that are cast without gradients must not be what the student takes."""
    task = recognizer(**SETTINGS)
    model, batch = built(task).train(), collated(task, corpus())
    set_precision(model, "bfloat16")
    average = {name: p.detach().clone() for name, p in model.named_parameters()}
    found = []
    for epoch in (0, 1):
        model.zero_grad()
        with autocast(torch.device("cpu"), "bfloat16"):
            sums = task.forward(model, batch, in_epoch(epoch, average)).sums
        torch.stack(list(sums.values())).sum().backward()
        found.append({name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()})
    assert found[0] == found[1] != set()


def test_what_the_teacher_leaves_open_is_no_negative() -> None:
    task = recognizer(**SETTINGS)
    model, batch = built(task).train(), collated(task, corpus())
    average = {name: p.detach().clone() for name, p in model.named_parameters()}
    plain, taught = (task.forward(model, batch, in_epoch(e, average)).sums for e in (0, 1))
    assert taught["teacher"].item() == pytest.approx(0, abs=1e-4)
    assert 0 <= taught["span_threshold"] < plain["span_threshold"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": {"epochs": 3}}, r"self_training needs training\.average"),
        ({"self_training": {"start_epoch": 4}}, r"start_epoch 4 never comes: training\.epochs is 3"),
        ({"self_training": {"start_epoch": 1}}, r"self_training\.start_epoch: .*greater than or equal to 2"),
        ({"self_training": {"confidence": 0.5}}, r"self_training\.confidence: .*greater than 0\.5"),
        ({"self_training": {"decay": 0.9}}, r"self_training\.decay: unknown key"),
        ({"model": {"threshold": "tuned"}}, "self_training learns decisions"),
        ({"absent": [{"name": "DAY", "description": "days"}]}, "self_training conflicts with absent"),
    ],
)
def test_what_has_no_teacher_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        recognizer(**{**SETTINGS, **changes})
    assert "\n" not in str(caught.value)


def test_killed_in_the_second_stage_and_resumed_equals_undisturbed(tmp_path: Path) -> None:
    training = {"tokens_per_step": 120, "average": 0.9, "checkpoint_every": 2}
    values = tiny_recipe(tmp_path, "recognizer", **training)
    recipe = parse_recipe(values | {"self_training": {"start_epoch": 2, "confidence": 0.6}}, "recipe")
    train(recipe, tmp_path / "whole")
    steps = len(losses(tmp_path / "whole"))
    assert min(losses(tmp_path / "whole")) > 0
    with killed_at(steps - 1):
        train(recipe, tmp_path / "cut")
    train(recipe, tmp_path / "cut")
    for part in ("last", "best"):
        one, other = (weights_of(tmp_path / run / part) for run in ("whole", "cut"))
        assert largest_difference(one, other) == 0.0
    one, other = (load_file(tmp_path / r / "last/state/average.safetensors") for r in ("whole", "cut"))
    assert largest_difference(one, other) == 0.0


def unknown(text: str) -> Any:
    """A document with `[X:...]` as unknown."""
    document = marked(text)
    mentions = tuple(replace(m, type=UNKNOWN if m.type == "X" else m.type) for m in document.mentions)
    return replace(document, mentions=mentions)


def test_unknown_spans_are_neither_mentions_nor_negatives_nor_rejects() -> None:
    task = recognizer()
    document = unknown("[PER:Ada] read [X:old letters] in [LOC:Paris].")
    assert [row["rejects"] for row in task.examples([document])] == [[]]
    (window,) = task.windows_of(document)
    batch = collated(task, [document])
    assert sorted(set(batch.targets.gold[:, 1].tolist())) == [0, 2]
    begin, end = document.text.index("old"), document.text.index(" in")
    rows = batch.targets.excluded_spans.tolist()
    assert [row[:2] for row in rows] == [[0, 0], [0, 1], [0, 2]]
    words, word_of = window.subwords.words, window.subwords.word_of.tolist()
    for _, _, first, last in rows:
        assert (words[word_of[first - 1]][0], words[word_of[last - 1]][1]) == (begin, end)


def test_an_unknown_span_at_the_edge_of_a_window_is_open_in_both() -> None:
    task = recognizer(windows={"length": 12, "overlap": 4}, model={"max_span_width": 4})
    text = "Ada read one and two and three and four and five and six and seven letters here."
    document = replace(marked(text), mentions=(Mention(0, 3, "PER"), Mention(4, 70, UNKNOWN)))
    rows = list(task.examples([document]))
    assert len(rows) > 2
    for number, row in enumerate(rows):
        ((first, last),) = row["unknown"].reshape(-1, 2)
        assert first == (1 if number == 0 else 0)
        assert last < len(row["ids"])
        assert number == len(rows) - 1 or last == len(row["ids"]) - 1


def test_a_tagger_learns_nothing_of_an_unknown_span() -> None:
    task = tagger()
    model = built(task)
    batch = collated(task, [unknown("[X:Ada read letters]")])
    (loss,) = task.forward(model, batch, None).sums.values()  # type: ignore[arg-type]
    assert loss.item() == pytest.approx(0, abs=1e-5)
    plain = collated(task, [marked("Ada read letters")])
    assert task.forward(model, plain, None).sums["tag"] > 1  # type: ignore[arg-type]
    mixed = collated(task, [unknown("[PER:Ada] read [X:old letters] here")])
    assert mixed.unknown.any(1).tolist() == [False, False, True, True, False]
