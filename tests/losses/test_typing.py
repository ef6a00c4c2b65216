"""The loss of types against the dense form."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rayner.losses.typing import typing_loss


def random_logits(mentions: int, types: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(mentions * 100 + types)
    return scale * torch.randn(mentions, types, generator=generator, dtype=torch.float64)


@given(st.integers(0, 4), st.integers(1, 5), st.data())
def test_value_and_gradient_are_those_of_the_dense_form(
    mentions: int, types: int, data: st.DataObject
) -> None:
    cells = [(m, t) for m in range(mentions) for t in range(types)]
    right = data.draw(st.lists(st.sampled_from(cells), unique=True)) if cells else []
    logits = random_logits(mentions, types, 3.0).requires_grad_()
    targets = torch.zeros_like(logits)
    for mention, kind in right:
        targets[mention, kind] = 1
    total = typing_loss(logits, torch.tensor(right, dtype=torch.int64).reshape(-1, 2))
    expected = F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(total, logits)
    (slow,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(gradient, slow, rtol=0, atol=1e-12)


def test_gradcheck() -> None:
    right = torch.tensor([[0, 1], [0, 3], [2, 0]])
    assert torch.autograd.gradcheck(lambda x: typing_loss(x, right), random_logits(3, 4).requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    logits = random_logits(60, 300, 20.0).to(dtype).requires_grad_()
    right = torch.stack([torch.arange(60), torch.arange(60) % 7], 1)
    with torch.autocast("cpu", dtype):
        total = typing_loss(logits, right)
    exact = typing_loss(logits.double(), right)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total.double(), exact, rtol=1e-5, atol=0)
    (gradient,) = torch.autograd.grad(total, logits)
    assert gradient.isfinite().all()
