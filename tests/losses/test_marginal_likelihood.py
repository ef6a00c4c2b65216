"""The marginal likelihood of the top candidates against a loop over anchors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rayner.losses.marginal_likelihood import marginal_likelihood
from rayner.losses.positives import pairs
from tests.losses.drawn_rows import all_pairs, random_rows


def loss(rows: Tensor, labels: list[int], count: int) -> tuple[Tensor, Tensor]:
    return marginal_likelihood(rows, rows, all_pairs(torch.tensor(labels)), 0.2, count)


def by_definition(rows: Tensor, labels: list[int], count: int) -> Tensor:
    total = 0 * rows.sum()
    similarity = F.cosine_similarity(rows[:, None], rows[None], dim=2) / 0.2
    for i, label in enumerate(labels):
        others = [k for k in range(len(labels)) if k != i]
        nearest = sorted(others, key=lambda k: -similarity[i, k].item())[:count]
        probability = F.softmax(similarity[i, nearest], 0)
        right = [place for place, k in enumerate(nearest) if labels[k] == label]
        if right:
            total = total - torch.log(probability[right].sum())
    return total


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 9), st.integers(0, 99))
def test_value_and_gradient_are_those_of_the_definition(labels, count, seed) -> None:
    rows = random_rows(len(labels), seed=seed).requires_grad_()
    total, number = loss(rows, labels, count)
    expected = by_definition(rows, labels, count)
    assert number.item() == len(labels)
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-9)
    found, slow = (torch.autograd.grad(of, rows)[0] for of in (total, expected))
    torch.testing.assert_close(found, slow, rtol=0, atol=1e-9)


def test_vectors_that_are_no_numbers_are_no_loss_of_nothing() -> None:
    total, _ = loss(torch.full((4, 3), torch.nan), [0, 0, 1, 1], 2)
    assert total.isnan()


def test_gradcheck() -> None:
    rows = random_rows(8).requires_grad_()
    assert torch.autograd.gradcheck(lambda r: loss(r, [0, 0, 0, 1, 1, 2, 3, 3], 4)[0], rows)


def test_an_anchor_without_a_positive_among_its_candidates_learns_nothing() -> None:
    rows = torch.tensor([[1.0, 0], [-1.0, 0], [0.9, 0.1], [0.8, 0.3]], requires_grad=True)
    total, number = loss(rows, [0, 0, 1, 2], 2)
    total.backward()
    assert (total.item(), number.item()) == (0, 4)
    assert rows.grad is not None
    assert (rows.grad == 0).all()


def test_half_precision_is_computed_in_float32() -> None:
    rows, labels = random_rows(12).bfloat16(), [0, 1, 2] * 4
    with torch.autocast("cpu", torch.bfloat16):
        total, _ = loss(rows.requires_grad_(), labels, 11)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total.double(), loss(rows.double(), labels, 11)[0], rtol=1e-4, atol=1e-4)


def test_no_anchors_add_nothing() -> None:
    nobody = torch.zeros(0, dtype=torch.long)
    rows = random_rows(3)
    total, number = marginal_likelihood(rows[nobody], rows, pairs(nobody, torch.arange(3), nobody), 0.1, 2)
    assert (total.item(), number.item()) == (0, 0)
