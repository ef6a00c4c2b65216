"""The loss of masked sub-words, block by block, against the whole table of logits."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rayner.losses.masked_lm import masked_lm_loss


def random_inputs(rows: int, width: int = 5, words: int = 11) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    sizes = ((rows, width), (words, width), (words,))
    hidden, weight, bias = (torch.randn(s, generator=generator, dtype=torch.float64) for s in sizes)
    return hidden, weight, bias, torch.randint(words, (rows,), generator=generator)


@given(st.integers(0, 9), st.integers(1, 60), st.booleans())
def test_value_and_gradients_are_those_of_the_whole_table(rows: int, cells: int, biased: bool) -> None:
    hidden, weight, bias, targets = random_inputs(rows)
    inputs = [part.requires_grad_() for part in ((hidden, weight, bias) if biased else (hidden, weight))]
    given_bias = bias if biased else None
    total = masked_lm_loss(hidden, weight, given_bias, targets, cells)
    expected = F.cross_entropy(F.linear(hidden, weight, given_bias), targets, reduction="sum")
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-12)
    found = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    for gradient, slow in zip(found, torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(gradient, slow, rtol=0, atol=1e-12)


def test_gradcheck() -> None:
    hidden, weight, bias, targets = random_inputs(4, 3, 5)
    inputs = tuple(part.requires_grad_() for part in (hidden, weight, bias))
    assert torch.autograd.gradcheck(lambda h, w, b: masked_lm_loss(h, w, b, targets, 10), inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    hidden, weight, bias, targets = random_inputs(40, 64, 500)
    single = [part.float().requires_grad_() for part in (hidden, weight, bias)]
    with torch.autocast("cpu", dtype):
        total = masked_lm_loss(*single, targets, 2000)
    exact = masked_lm_loss(hidden, weight, bias, targets)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total.double(), exact, rtol=1e-2, atol=0)
    assert all(g.isfinite().all() for g in torch.autograd.grad(total, single))


def test_no_table_of_all_logits_is_made() -> None:
    rows, words = 300, 20_000
    hidden, weight, bias, targets = (
        part.float() if part.is_floating_point() else part for part in random_inputs(rows, 8, words)
    )
    inputs = [part.requires_grad_() for part in (hidden, weight, bias)]
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        total = masked_lm_loss(hidden, weight, bias, targets, 20 * words)
        total.backward()
    largest = max(event.cpu_memory_usage for event in profile.function_events or [])
    assert 0 < largest <= 4 * 3 * 20 * words
    assert all(part.grad is not None and part.grad.isfinite().all() for part in inputs)
