"""The marginal likelihood of antecedents beside a slow reading of its definition."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from rayner.losses.antecedents import antecedent_loss


def slow(scores: torch.Tensor, possible: torch.Tensor, gold: torch.Tensor) -> float:
    total = 0.0
    for row, can, right in zip(scores.tolist(), possible.tolist(), gold.tolist(), strict=True):
        weights = [math.exp(s) for s, ok in zip(row, can, strict=True) if ok]
        good = [math.exp(s) for s, ok, is_right in zip(row, can, right, strict=True) if ok and is_right]
        total -= math.log((sum(good) if good else 1.0) / (1.0 + sum(weights)))
    return total


@given(st.integers(0, 1000))
def test_equals_its_definition_in_value_and_gradient(seed: int) -> None:
    torch.manual_seed(seed)
    scores = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    possible, gold = torch.rand(5, 4) > 0.3, torch.rand(5, 4) > 0.6
    loss = antecedent_loss(scores, possible, gold)
    assert abs(float(loss.detach()) - slow(scores.detach(), possible, gold)) < 1e-12
    loss.backward()
    assert scores.grad is not None
    assert bool((scores.grad[~possible] == 0).all())
    step = 1e-6
    moved = scores.detach().clone()
    moved[2, 1] += step
    numeric = (slow(moved, possible, gold) - slow(scores.detach(), possible, gold)) / step
    assert abs(float(scores.grad[2, 1]) - numeric) < 1e-4


def test_a_first_mention_has_none() -> None:
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    assert float(antecedent_loss(torch.randn(1, 3), nothing, nothing)) == 0


def test_half_precision_is_summed_in_float32() -> None:
    scores = torch.full((2, 3), 50.0, dtype=torch.float16)
    every = torch.ones(2, 3, dtype=torch.bool)
    found = antecedent_loss(scores, every, ~every)
    assert found.dtype == torch.float32
    assert abs(float(found) - 2 * (50 + math.log(3))) < 1e-3
