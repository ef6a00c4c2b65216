from __future__ import annotations

import pytest
import torch

from rayner.losses.masked import masked_logsumexp


def test_is_the_log_sum_exp_of_what_the_mask_leaves() -> None:
    torch.manual_seed(0)
    scores = (10 * torch.randn(5, 7, dtype=torch.float64)).requires_grad_()
    mask = torch.rand(5, 7) < 0.5
    mask[:, 0] = True
    expected = torch.stack([torch.logsumexp(row[kept], 0) for row, kept in zip(scores, mask, strict=True)])
    torch.testing.assert_close(masked_logsumexp(scores, mask), expected, rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(lambda s: masked_logsumexp(s, mask), scores)


def test_without_any_cell_it_is_minus_infinity_and_passes_no_gradient() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    mask = torch.tensor([[False] * 3, [True] * 3])
    result = masked_logsumexp(scores, mask)
    assert result[0] == float("-inf")
    result.backward(torch.tensor([5.0, 1.0]))
    assert scores.grad is not None
    assert scores.grad[0].tolist() == [0, 0, 0]
    torch.testing.assert_close(scores.grad[1], scores[1].detach().softmax(0))


@pytest.mark.parametrize("rows", [0, 2])
def test_of_no_cells_at_all_too(rows: int) -> None:
    scores = torch.zeros(rows, 0, requires_grad=True)
    result = masked_logsumexp(scores, torch.zeros(rows, 0, dtype=torch.bool))
    assert result.tolist() == [float("-inf")] * rows
    result.sum().backward()
    assert scores.grad is not None


def test_masked_cells_do_not_leak_however_large() -> None:
    scores = torch.tensor([[1e4, -3.0, 1e4]])
    assert masked_logsumexp(scores, torch.tensor([[False, True, False]])).item() == -3.0
