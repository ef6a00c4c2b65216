"""The contrast of Gaussians against loops over pairs and against values of the definition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from rayner.losses.gaussian import CandidateGaussians, Gaussians, divergences, gaussian_contrast
from rayner.losses.positives import pairs
from tests.losses.drawn_rows import all_pairs

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "gaussian.json").read_text())


def random_gaussians(rows: int, width: int = 4, seed: int = 0, scale: float = 1.0) -> Gaussians:
    generator = torch.Generator().manual_seed(seed)
    mean, deviation = torch.randn(2, rows, width, generator=generator, dtype=torch.float64)
    return Gaussians(scale * mean, deviation.exp())


def with_gradient(gaussians: Gaussians) -> Gaussians:
    return Gaussians(*(part.detach().requires_grad_() for part in gaussians))


def golden() -> tuple[Gaussians, Tensor]:
    parts = (torch.tensor(GOLDEN[name], dtype=torch.float64) for name in ("mean", "variance"))
    return with_gradient(Gaussians(*parts)), torch.tensor(GOLDEN["labels"])


def divergence_by_definition(a: Gaussians, b: Gaussians) -> Tensor:
    """Of two rows, both directions by PyTorch's own."""
    one, other = (Independent(Normal(g.mean, g.variance.sqrt()), 1) for g in (a, b))
    return (kl_divergence(one, other) + kl_divergence(other, one)) / 2


def by_definition(gaussians: Gaussians, labels: list[int]) -> tuple[Tensor, int]:
    rows = [Gaussians(m, v) for m, v in zip(gaussians.mean, gaussians.variance, strict=True)]
    terms = []
    for a in range(len(rows)):
        others = [b for b in range(len(rows)) if b != a]
        positives = [b for b in others if labels[b] == labels[a]]
        if positives:
            d = {b: -divergence_by_definition(rows[a], rows[b]) for b in others}
            mean = torch.stack([d[b] for b in positives]).exp().sum() / len(positives)
            terms.append(-(mean / torch.stack([d[b] for b in others]).exp().sum()).log())
    return torch.stack([0 * gaussians.mean.sum(), *terms]).sum(), len(terms)


def test_divergences_and_values_are_those_of_the_equations() -> None:
    gaussians, labels = golden()
    exact = torch.tensor(GOLDEN["divergence"], dtype=torch.float64)
    torch.testing.assert_close(divergences(gaussians, gaussians), exact, rtol=0, atol=1e-12)
    total, count = gaussian_contrast(gaussians, gaussians, all_pairs(labels))
    assert (total / count).item() == pytest.approx(GOLDEN["loss"], abs=1e-12)
    assert count.item() == sum(GOLDEN["labels"].count(label) > 1 for label in GOLDEN["labels"])


def test_candidates_that_are_prepared_once_give_the_same() -> None:
    anchors, others = with_gradient(random_gaussians(5, seed=1)), with_gradient(random_gaussians(9, seed=2))
    found, usual = divergences(anchors, CandidateGaussians.of(others)), divergences(anchors, others)
    assert torch.equal(found, usual)
    grads = (torch.autograd.grad(d.sum(), (*anchors, *others)) for d in (found, usual))
    assert all(torch.equal(one, other) for one, other in zip(*grads, strict=True))


def test_the_gradient_is_that_of_the_equations() -> None:
    gaussians, labels = golden()
    total, count = gaussian_contrast(gaussians, gaussians, all_pairs(labels))
    expected, number = by_definition(gaussians, GOLDEN["labels"])
    assert (expected / number).item() == pytest.approx(GOLDEN["loss"], abs=1e-12)
    slow = torch.autograd.grad(expected / number, gaussians)
    for found, wanted in zip(torch.autograd.grad(total / count, gaussians), slow, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=8))
def test_value_count_and_gradient_are_those_of_the_definition(drawn: list[tuple[int, int]]) -> None:
    places = [place for place, _ in drawn]  # some Gaussians are equal
    gaussians = with_gradient(Gaussians(*(part[places] for part in random_gaussians(5, scale=0.5))))
    labels = [label for _, label in drawn]
    total, count = gaussian_contrast(gaussians, gaussians, all_pairs(torch.tensor(labels)))
    expected, number = by_definition(gaussians, labels)
    assert count.item() == number
    torch.testing.assert_close(total, expected, rtol=1e-10, atol=1e-10)
    slow = torch.autograd.grad(expected, gaussians, allow_unused=True, materialize_grads=True)
    for found, wanted in zip(torch.autograd.grad(total, gaussians), slow, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_gradcheck() -> None:
    groups = all_pairs(torch.tensor([0, 0, 0, 1, 1, 2, 3]))
    inputs = with_gradient(random_gaussians(7))

    def loss(mean: Tensor, variance: Tensor) -> Tensor:
        gaussians = Gaussians(mean, variance)
        return gaussian_contrast(gaussians, gaussians, groups)[0]

    assert torch.autograd.gradcheck(loss, tuple(inputs))


def test_far_gaussians_underflow_in_the_naive_form_only() -> None:
    gaussians = with_gradient(random_gaussians(8, 64, scale=3.0))
    groups = all_pairs(torch.arange(8) // 2)
    d = divergences(gaussians, gaussians).float()
    assert not (torch.where(groups.positive, (-d).exp(), 0).sum(1).log().isfinite()).any()
    exact, _ = gaussian_contrast(gaussians, gaussians, groups)
    single = with_gradient(Gaussians(*(part.float() for part in gaussians)))
    total, _ = gaussian_contrast(single, single, groups)
    torch.testing.assert_close(total.double(), exact, rtol=1e-4, atol=0)
    assert all(g.isfinite().all() for g in torch.autograd.grad(total, single))


@pytest.mark.parametrize("variance", [1e-6, 1e-3, 1.0])
def test_near_gaussians_of_small_variance_are_told_apart_in_float32(variance: float) -> None:
    """The terms that cancel are 10^7 times as large as what remains."""
    generator = torch.Generator().manual_seed(0)
    mean = 0.5 * torch.randn(600, 128, generator=generator)
    mean[1::2] = mean[::2] + 0.1 * variance**0.5 * torch.randn(300, 128, generator=generator)
    single = with_gradient(Gaussians(mean, torch.full_like(mean, variance)))
    exact = with_gradient(Gaussians(*(part.double() for part in single)))
    groups = all_pairs(torch.arange(600) // 2)
    found, wanted = divergences(single, single), divergences(exact, exact)
    near = torch.arange(0, 600, 2)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.diagonal().double(), torch.zeros(600).double(), rtol=0, atol=1e-6)
    first, second = (Gaussians(exact.mean[i], exact.variance[i]) for i in (0, 1))
    torch.testing.assert_close(wanted[0, 1], divergence_by_definition(first, second), rtol=1e-6, atol=0)
    torch.testing.assert_close(found[near, near + 1].double(), wanted[near, near + 1], rtol=1e-5, atol=0)
    sums = [gaussian_contrast(g, g, groups)[0] for g in (single, exact)]
    torch.testing.assert_close(sums[0].double(), sums[1], rtol=1e-5, atol=1e-5)
    for of_single, of_exact in zip(
        torch.autograd.grad(sums[0], single), torch.autograd.grad(sums[1], exact), strict=True
    ):
        scale = of_exact.abs().max().item()
        torch.testing.assert_close(of_single.double(), of_exact, rtol=1e-4, atol=1e-6 + 1e-5 * scale)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [0, 0, 0, 0]], ids=["no positives", "no negatives"])
def test_a_batch_without_contrast(labels: list[int]) -> None:
    gaussians = with_gradient(random_gaussians(4))
    total, count = gaussian_contrast(gaussians, gaussians, all_pairs(torch.tensor(labels)))
    gradients = torch.autograd.grad(total, gaussians)
    assert all(g.isfinite().all() for g in gradients)
    if len(set(labels)) == 4:
        assert (total.item(), count.item()) == (0, 0)
        assert all((g == 0).all() for g in gradients)
    else:
        # The mean over all others beside their sum.
        assert (total / count).item() == pytest.approx(torch.tensor(3.0).log().item(), abs=1e-6)


def test_parts_of_the_anchors_add_up_to_the_whole() -> None:
    gaussians = with_gradient(random_gaussians(15))
    labels = torch.arange(15) % 4

    def part(own: Tensor) -> tuple[Tensor, ...]:
        gathered = Gaussians.of(gaussians.rows())
        anchors = Gaussians(*(rows[own] for rows in gaussians))
        total, count = gaussian_contrast(anchors, gathered, pairs(labels[own], labels, own))
        return total, count, *torch.autograd.grad(total, gaussians)

    order = torch.randperm(15, generator=torch.Generator().manual_seed(0))
    halves = zip(part(order[:6]), part(order[6:]), strict=True)
    for whole, (one, other) in zip(part(torch.arange(15)), halves, strict=True):
        torch.testing.assert_close(one + other, whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    gaussians = with_gradient(Gaussians(*(part.to(dtype) for part in random_gaussians(12, 64))))
    groups = all_pairs(torch.arange(12) // 3)
    with torch.autocast("cpu", dtype):
        total, _ = gaussian_contrast(gaussians, gaussians, groups)
    doubled = Gaussians(*(part.double() for part in gaussians))
    exact, _ = gaussian_contrast(doubled, doubled, groups)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total.double(), exact, rtol=1e-4, atol=1e-3)
    assert all(g.isfinite().all() for g in torch.autograd.grad(total, gaussians))


def test_no_anchors_add_nothing() -> None:
    gaussians, nobody = random_gaussians(3), torch.zeros(0, dtype=torch.long)
    anchors = Gaussians(*(part[nobody] for part in gaussians))
    total, count = gaussian_contrast(anchors, gaussians, pairs(nobody, torch.arange(3), nobody))
    assert (total.item(), count.item()) == (0, 0)


def test_no_tensor_of_pairs_and_dimensions_is_made() -> None:
    size = 700  # times the width, in float32: 250 MB
    gaussians = with_gradient(Gaussians(*(part.float() for part in random_gaussians(size, 128))))
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        total, _ = gaussian_contrast(gaussians, gaussians, all_pairs(torch.arange(size) // 10))
        total.backward()
    largest = max(event.cpu_memory_usage for event in profile.function_events or [])
    assert 0 < largest <= 16 * size**2
