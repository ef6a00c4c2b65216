"""Supervised InfoNCE against loops over pairs and against values of the definition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rayner.losses.infonce import infonce
from rayner.losses.positives import pairs
from tests.losses.drawn_rows import all_pairs, random_rows

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "coref_infonce.json").read_text())


def by_definition(rows: Tensor, labels: list[int], temperature: float) -> tuple[Tensor, int]:
    places = range(len(labels))
    scores = F.cosine_similarity(rows[:, None], rows[None], dim=2) / temperature
    terms = []
    for a in places:
        negatives = [scores[a, n] for n in places if labels[n] != labels[a]]
        for p in places:
            if p != a and labels[p] == labels[a]:
                terms.append(torch.stack([scores[a, p], *negatives]).logsumexp(0) - scores[a, p])
    return torch.stack([0 * rows.sum(), *terms]).sum(), len(terms)


def chains_by_definition(rows: Tensor, within_story: bool) -> tuple[Tensor, int]:
    chains, stories, places = GOLDEN["chain"], GOLDEN["story"], range(len(rows))
    scores = F.cosine_similarity(rows[:, None], rows[None], dim=2) / GOLDEN["temperature"]
    terms = []
    for a in places:
        negatives = [
            scores[a, n]
            for n in places
            if stories[n] != stories[a] or (within_story and chains[n] != chains[a])
        ]
        for p in places:
            if p != a and chains[p] == chains[a]:
                terms.append(torch.stack([scores[a, p], *negatives]).logsumexp(0) - scores[a, p])
    return torch.stack(terms).mean(), len(terms)


@pytest.mark.parametrize("within_story", [False, True])
def test_chains_of_stories_have_the_value_and_gradient_of_the_equation(within_story: bool) -> None:
    rows = torch.tensor(GOLDEN["embeddings"], dtype=torch.float64, requires_grad=True)
    keys = torch.tensor([GOLDEN["chain"], GOLDEN["story"]]).T
    groups = pairs(keys, keys, torch.arange(len(keys)), within_story=within_story)
    total, count = infonce(rows, rows, groups, GOLDEN["temperature"])
    expected, number = chains_by_definition(rows, within_story)
    assert count.item() == number == GOLDEN["pairs"]
    if not within_story:
        assert (total / count).item() == pytest.approx(GOLDEN["loss"], abs=1e-9)
    torch.testing.assert_close(total / count, expected, rtol=0, atol=1e-10)
    (gradient,) = torch.autograd.grad(total / count, rows)
    (slow,) = torch.autograd.grad(expected, rows)
    torch.testing.assert_close(gradient, slow, rtol=0, atol=1e-10)


@pytest.mark.parametrize("temperature", [0.05, 1.0])
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=8))
def test_value_count_and_gradient_are_those_of_the_definition(
    temperature: float, drawn: list[tuple[int, int]]
) -> None:
    rows = random_rows(5)[[place for place, _ in drawn]].requires_grad_()  # some rows are equal
    labels = [label for _, label in drawn]
    total, count = infonce(rows, rows, all_pairs(torch.tensor(labels)), temperature)
    expected, number = by_definition(rows, labels, temperature)
    assert count.item() == number
    torch.testing.assert_close(total, expected, rtol=1e-10, atol=1e-10)
    (gradient,) = torch.autograd.grad(total, rows)
    (slow,) = torch.autograd.grad(expected, rows)
    torch.testing.assert_close(gradient, slow, rtol=1e-9, atol=1e-9)


def test_gradcheck() -> None:
    rows = random_rows(7).requires_grad_()
    groups = all_pairs(torch.tensor([0, 0, 0, 1, 1, 2, 3]))
    assert torch.autograd.gradcheck(lambda r: infonce(r, r, groups, 0.3)[0], rows)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [0, 0, 0, 0]], ids=["no positives", "no negatives"])
def test_a_batch_without_contrast_is_zero_with_a_gradient_of_zero(labels: list[int]) -> None:
    rows = random_rows(4)
    rows[2] = 0
    rows.requires_grad_()
    total, _ = infonce(rows, rows, all_pairs(torch.tensor(labels)), 0.07)
    (gradient,) = torch.autograd.grad(total, rows)
    assert total.item() == 0
    assert (gradient == 0).all()


def test_parts_of_the_anchors_add_up_to_the_whole() -> None:
    rows = random_rows(15).requires_grad_()
    labels = torch.arange(15) % 4

    def part(own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        total, count = infonce(rows[own], rows, pairs(labels[own], labels, own), 0.07)
        return total, count, torch.autograd.grad(total, rows)[0]

    order = torch.randperm(15, generator=torch.Generator().manual_seed(0))
    halves = zip(part(order[:6]), part(order[6:]), strict=True)
    for whole, (one, other) in zip(part(torch.arange(15)), halves, strict=True):
        torch.testing.assert_close(one + other, whole, rtol=0, atol=1e-9)


def test_no_tensor_of_pairs_and_dimensions_is_made() -> None:
    size = 700  # times the width, in float32: 250 MB; as pairs of pairs, 950 GB
    rows = random_rows(size, 128).float().requires_grad_()
    groups = all_pairs(torch.arange(size) // 10)
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        total, _ = infonce(rows, rows, groups, 0.05)
        total.backward()
    assert profile is not None
    largest = max(event.cpu_memory_usage for event in profile.function_events or [])
    assert 0 < largest <= 16 * size**2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    rows = (30 * random_rows(12, 64)).to(dtype).requires_grad_()
    groups = all_pairs(torch.arange(12) // 3)
    with torch.autocast("cpu", dtype):
        total, _ = infonce(rows, rows, groups, 0.01)
    exact, _ = infonce(rows.double(), rows.double(), groups, 0.01)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total.double(), exact, rtol=1e-4, atol=1e-4)
    (gradient,) = torch.autograd.grad(total, rows)
    assert gradient.isfinite().all()
