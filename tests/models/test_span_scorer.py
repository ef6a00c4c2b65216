"""The fast scores of spans against a vector for each span."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.models.span_scorer import score_positions, score_span_vectors, score_spans, span_vectors

BATCH, LENGTH, SIZE, TYPES = 2, 7, 5, 3


def parts(widths: int, windows: int = 1, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    torch.manual_seed(widths)
    shapes = (BATCH, LENGTH, SIZE), (BATCH, LENGTH, SIZE), (windows, widths, SIZE), (TYPES, SIZE)
    return tuple(torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes)


def by_loops(starts: Tensor, ends: Tensor, widths: Tensor, types: Tensor) -> Tensor:
    widths = widths.expand(BATCH, -1, -1)
    rows = []
    for b in range(BATCH):
        for k in range(TYPES):
            for i in range(LENGTH):
                for w in range(widths.shape[1]):
                    if i + w < LENGTH:
                        vector = starts[b, i] + ends[b, i + w] + widths[b, w]
                        rows.append(vector @ types[k] / vector.norm())
    return torch.stack(rows)


def inside(scores: Tensor) -> Tensor:
    """The cells that are spans, in the order of `by_loops`."""
    mask = torch.tensor([[i + w < LENGTH for w in range(scores.shape[3])] for i in range(LENGTH)])
    return scores[:, :, mask].flatten()


@pytest.mark.parametrize("windows", [1, BATCH])
@pytest.mark.parametrize("widths", [1, 3, LENGTH])
def test_value_and_gradient_are_those_of_span_vectors(widths: int, windows: int) -> None:
    inputs = parts(widths, windows)
    found, expected = inside(score_spans(*inputs)), by_loops(*inputs)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    weights = torch.randn_like(expected)
    fast, slow = (torch.autograd.grad((s * weights).sum(), inputs) for s in (found, expected))
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


def test_cells_outside_the_window_are_finite_and_can_be_differentiated() -> None:
    inputs = parts(LENGTH)
    assert score_spans(*inputs).isfinite().all()
    assert torch.autograd.gradcheck(score_spans, inputs)


def test_made_vectors_score_the_same() -> None:
    inputs = parts(3)
    vectors = span_vectors(*inputs[:3])
    made = score_span_vectors(vectors, inputs[3])
    torch.testing.assert_close(inside(made), inside(score_spans(*inputs)))


def test_float32_is_close_to_float64() -> None:
    inputs = tuple(p.detach() for p in parts(4))
    exact = inside(score_spans(*inputs))
    single = inside(score_spans(*(p.float() for p in inputs)))
    torch.testing.assert_close(single.double(), exact, rtol=0, atol=1e-5)


def test_parts_that_cancel_stay_bounded() -> None:
    starts = 100 * torch.randn(1, 4, 64)
    starts.requires_grad_()
    scores = score_spans(
        starts, -starts.detach(), torch.zeros(1, 2, 64), F.normalize(torch.randn(3, 64), dim=1)
    )
    assert scores.isfinite().all()
    assert scores.abs().max() < 2
    scores.sum().backward()
    assert starts.grad is not None
    assert starts.grad.isfinite().all()


def test_position_scores_are_cosines_times_the_norm_of_the_type() -> None:
    vectors, types = torch.randn(BATCH, LENGTH, SIZE), torch.randn(TYPES, SIZE)
    expected = (
        F.cosine_similarity(vectors[:, None], types[None, :, None], dim=-1) * types.norm(dim=1)[:, None]
    )
    torch.testing.assert_close(score_positions(vectors, types), expected)
