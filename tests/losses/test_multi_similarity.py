"""The multi-similarity loss against a loop over anchors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rayner.losses.multi_similarity import multi_similarity
from rayner.losses.positives import pairs
from tests.losses.drawn_rows import all_pairs, random_rows

SCALES = {"base": 0.5, "positive_scale": 2.0, "negative_scale": 40.0}


def loss(rows: Tensor, labels: list[int], margin: float) -> tuple[Tensor, Tensor]:
    return multi_similarity(rows, rows, all_pairs(torch.tensor(labels)), margin, **SCALES)


def by_definition(rows: Tensor, labels: list[int], margin: float) -> Tensor:
    a, b, c = SCALES["positive_scale"], SCALES["base"], SCALES["negative_scale"]
    places, total = range(len(labels)), 0 * rows.sum()
    s = F.cosine_similarity(rows[:, None], rows[None], dim=2)
    for i in places:
        positives = [s[i, k] for k in places if k != i and labels[k] == labels[i]]
        negatives = [s[i, k] for k in places if labels[k] != labels[i]]
        if positives and negatives:
            farthest, nearest = min(positives), max(negatives)
            kept = [torch.exp(-a * (p - b)) for p in positives if p < nearest + margin]
            total = total + torch.log(1 + sum(kept, 0 * farthest)) / a
            kept = [torch.exp(c * (n - b)) for n in negatives if n > farthest - margin]
            total = total + torch.log(1 + sum(kept, 0 * farthest)) / c
    return total


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.1, 0.5, 2.0]),
    st.integers(0, 99),
)
def test_value_and_gradient_are_those_of_the_definition(labels, margin, seed) -> None:
    rows = random_rows(len(labels), seed=seed).requires_grad_()
    total, count = loss(rows, labels, margin)
    expected = by_definition(rows, labels, margin)
    assert count.item() == len(labels)
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-9)
    found, slow = (torch.autograd.grad(of, rows)[0] for of in (total, expected))
    torch.testing.assert_close(found, slow, rtol=0, atol=1e-9)


def test_vectors_that_are_no_numbers_are_no_loss_of_nothing() -> None:
    total, _ = loss(torch.full((4, 3), torch.nan), [0, 0, 1, 1], 0.1)
    assert total.isnan()


def test_gradcheck() -> None:
    rows = random_rows(8).requires_grad_()
    assert torch.autograd.gradcheck(lambda r: loss(r, [0, 0, 0, 1, 1, 2, 3, 3], 0.3)[0], rows)


@pytest.mark.parametrize("labels", [[0] * 5, [0, 1, 2, 3, 4]], ids=["one group", "no positives"])
def test_anchors_without_either_kind_add_nothing_and_have_a_finite_gradient(labels: list[int]) -> None:
    rows = random_rows(5)
    rows[1] = rows[0]
    rows.requires_grad_()
    total, count = loss(rows, labels, 0.1)
    total.backward()
    assert (total.item(), count.item()) == (0, 5)
    assert rows.grad is not None
    assert (rows.grad == 0).all()


def test_half_precision_is_computed_in_float32() -> None:
    rows, labels = random_rows(12).bfloat16(), [0, 1, 2] * 4
    with torch.autocast("cpu", torch.bfloat16):
        total, _ = loss(rows.requires_grad_(), labels, 0.1)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total.double(), loss(rows.double(), labels, 0.1)[0], rtol=1e-4, atol=1e-4)


def test_no_anchors_add_nothing() -> None:
    nobody = torch.zeros(0, dtype=torch.long)
    rows = random_rows(3)
    groups = pairs(nobody, torch.arange(3), nobody)
    total, count = multi_similarity(rows[nobody], rows, groups, 0.1, **SCALES)
    assert (total.item(), count.item()) == (0, 0)
