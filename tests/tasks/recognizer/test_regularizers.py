"""What a recipe can add to the objective of the recognizer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rayner.errors import RecipeError
from rayner.tasks.base import Progress
from tests.tasks.small import built, collated, corpus, found, recognizer, spans, trained, weighted_loss

START = Progress(0, 10, 0, 1)


def test_without_dropout_two_passes_are_one() -> None:
    plain, twice = recognizer(), recognizer(loss={"r_drop": 2.0})
    model, batch = built(plain).train(), collated(plain, corpus())
    one, both = (task.forward(model, batch, START).sums for task in (plain, twice))
    assert both["r_drop"] == 0
    for part, value in one.items():
        torch.testing.assert_close(both[part], value)
    assert twice.counts(batch, START)["r_drop"] == batch.targets.known.sum()


def test_passes_with_dropout_are_drawn_together() -> None:
    task = recognizer(model={"dropout": 0.3}, loss={"r_drop": 1.0})
    model, batch = built(task).train(), collated(task, corpus())
    assert task.forward(model, batch, START).sums["r_drop"] > 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    values = []
    for step in range(30):
        optimizer.zero_grad()
        loss = weighted_loss(task, model, batch, step)
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    assert sum(values[-5:]) < 0.7 * sum(values[:5])


def test_it_learns_with_all_of_them() -> None:
    task = recognizer(model={"dropout": 0.05}, loss={"r_drop": 0.5, "boundary_smoothing": 0.1})
    documents = corpus()

    def is_learned(model: Any) -> bool:
        answers = found(task, model, documents)
        right = sum(len(spans(a) & spans(d)) for a, d in zip(answers, documents, strict=True))
        return right > 0.7 * sum(len(spans(d)) for d in documents)

    assert is_learned(trained(task, documents, steps=80, until=is_learned))


def test_decisions_need_thresholds_in_training() -> None:
    with pytest.raises(RecipeError, match=r"loss\.r_drop compares decisions"):
        recognizer(model={"threshold": "tuned"}, loss={"r_drop": 1.0})
