"""Learning some of the types in each step."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from rayner.tasks.base import Progress
from tests.tasks.small import built, collated, corpus, recognizer

TASK = recognizer(model={"types_per_step": 2, "type_encoding": "prototype"})
FULL = recognizer(model={"type_encoding": "prototype"})
STEPS = 120


def _at(step: int) -> Progress:
    return Progress(step, STEPS, 0, 1)


def test_every_worker_draws_the_same_types_and_each_type_has_its_turn() -> None:
    other = recognizer(model={"types_per_step": 2})
    drawn = [tuple(TASK._types_of_step(_at(step)).tolist()) for step in range(STEPS)]
    assert drawn == [tuple(other._types_of_step(_at(step)).tolist()) for step in range(STEPS)]
    assert all(len(set(types)) == 2 for types in drawn)
    turns = Counter(t for types in drawn for t in types)
    assert all(abs(turns[t] / STEPS - 2 / 3) < 0.15 for t in range(3)), turns


def test_a_step_has_the_sums_and_counts_of_its_types() -> None:
    """Over all draws, each type comes as often: the sums are unbiased up to the factor 3 / 2."""
    model = built(FULL).eval()
    documents = corpus()
    batch = collated(FULL, documents)
    alone = []
    for index in range(3):
        only = batch.targets.known.clone()
        only[:, [i for i in range(3) if i != index]] = False
        targets = batch.targets._replace(known=only)
        part = type(batch)(batch.ids, batch.mask, targets)
        alone.append((FULL.forward(model, part, _at(0)).sums, FULL.counts(part, _at(0))))
    for step in range(12):
        drawn = TASK._types_of_step(_at(step)).tolist()
        sums, counts = TASK.forward(model, batch, _at(step)).sums, TASK.counts(batch, _at(step))
        for part in TASK.weights:
            wanted = torch.stack([alone[t][0][part] for t in drawn]).sum()
            torch.testing.assert_close(sums[part], wanted, rtol=1e-4, atol=1e-4)
            assert counts[part] == sum(alone[t][1][part] for t in drawn)
    everything = FULL.forward(model, batch, _at(0)).sums
    for part in TASK.weights:
        assert everything[part].item() == pytest.approx(sum(a[0][part].item() for a in alone), rel=1e-4)


def test_as_many_types_a_step_as_there_are_is_all_of_them() -> None:
    task = recognizer(model={"types_per_step": 7})
    assert task._types_of_step(_at(3)).tolist() == [0, 1, 2]
