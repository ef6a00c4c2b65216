"""Triplet losses and distances against loops over triplets, and against the published code's numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rayner.losses.distances import Distance, distances, rounding_error
from rayner.losses.positives import Pairs, pairs
from rayner.losses.triplet import batch_all, batch_hard
from tests.losses.drawn_rows import all_pairs, random_rows

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "triplet.json").read_text())
KINDS: tuple[Distance, ...] = ("cosine", "euclidean", "squared_euclidean")
LOSSES = {"batch_all": batch_all, "batch_hard": batch_hard}

Loss = Callable[[Tensor, Pairs, float], tuple[Tensor, Tensor]]


def all_by_definition(d: Tensor, labels: list[int], margin: float) -> tuple[Tensor, int]:
    places = range(len(labels))
    triplets = [
        d[a, p] + margin - d[a, n]
        for a in places
        for p in places
        for n in places
        if a != p and labels[a] == labels[p] != labels[n] and d[a, p] + margin - d[a, n] > 0
    ]
    return torch.stack([0 * d.sum(), *triplets]).sum(), len(triplets)


def hard_by_definition(d: Tensor, labels: list[int], margin: float) -> tuple[Tensor, int]:
    places = range(len(labels))
    total = 0 * d.sum()
    for a in places:
        positives = [d[a, p] for p in places if p != a and labels[p] == labels[a]]
        negatives = [d[a, n] for n in places if labels[n] != labels[a]]
        if negatives:
            farthest = torch.stack(positives).amax() if positives else d.new_zeros(())
            total = total + F.relu(farthest - torch.stack(negatives).amin() + margin)
    return total, len(labels)


DEFINITIONS = {"batch_all": all_by_definition, "batch_hard": hard_by_definition}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda c: f"{c['margin']}-{c['squared']}")
def test_value_and_gradient_are_those_of_the_published_code(name: str, case: dict[str, Any]) -> None:
    rows = torch.tensor(GOLDEN["embeddings"], dtype=torch.float64, requires_grad=True)
    kind: Distance = "squared_euclidean" if case["squared"] else "euclidean"
    groups = all_pairs(torch.tensor(GOLDEN["labels"]))
    total, count = LOSSES[name](distances(rows, rows, kind), groups, case["margin"])
    loss = total / count
    assert loss.item() == pytest.approx(case[name], abs=1e-9)
    (gradient,) = torch.autograd.grad(loss, rows)
    expected = torch.tensor(case[f"{name}_gradient"], dtype=torch.float64)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-9)


# Points of a grid: equal distances and equal points come up all the time.
points = st.lists(
    st.tuples(st.integers(-1, 1), st.integers(-1, 2), st.integers(0, 3)), min_size=1, max_size=7
)


@pytest.mark.parametrize("name", LOSSES)
@given(points, st.sampled_from([0.0, 0.3, 1.0, 2.0]), st.sampled_from(["euclidean", "squared_euclidean"]))
def test_value_count_and_gradient_are_those_of_the_definition(
    name: str, drawn: list[tuple[int, int, int]], margin: float, kind: Distance
) -> None:
    rows = torch.tensor([point[:2] for point in drawn], dtype=torch.float64)
    labels = [point[2] for point in drawn]
    d = distances(rows, rows, kind).requires_grad_()
    total, count = LOSSES[name](d, all_pairs(torch.tensor(labels)), margin)
    expected, number = DEFINITIONS[name](d, labels, margin)
    assert count.item() == number
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-10)
    (gradient,) = torch.autograd.grad(total, d)
    (slow,) = torch.autograd.grad(expected, d)
    torch.testing.assert_close(gradient, slow, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("labels", [[0] * 5, [0, 1, 2, 3, 4]], ids=["one group", "no positives"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_triplets_has_a_finite_gradient(name: str, labels: list[int], kind: Distance) -> None:
    rows = random_rows(5)
    rows[1] = rows[0]
    rows[2] = 0
    rows.requires_grad_()
    total, count = LOSSES[name](distances(rows, rows, kind), all_pairs(torch.tensor(labels)), 2.0)
    total.backward()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()
    if name == "batch_all":
        assert (total.item(), count.item()) == (0, 0)
    else:
        assert count.item() == 5
        assert (total.item() == 0) == (len(set(labels)) == 1)  # lone anchors still push


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_those_of_the_definition(kind: Distance) -> None:
    anchors, candidates = random_rows(4), random_rows(6, seed=1)
    expected = {
        "cosine": 1 - F.cosine_similarity(anchors[:, None], candidates[None], dim=2),
        "euclidean": (anchors[:, None] - candidates).norm(dim=2),
        "squared_euclidean": (anchors[:, None] - candidates).square().sum(2),
    }[kind]
    torch.testing.assert_close(distances(anchors, candidates, kind), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["euclidean", "squared_euclidean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 2, 3, 17, 768, 4096, 40_000])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_equal_rows_are_at_distance_zero_and_pass_no_gradient(
    kind: Distance, dtype: torch.dtype, width: int, scale: float
) -> None:
    rows = (scale * random_rows(40, width)).to(dtype).requires_grad_()
    candidates = rows.detach().repeat(3, 1)[7:]
    d = distances(rows, candidates, kind)
    same = (rows[:, None, :1] == candidates[:, :1]).all(2)
    assert same.sum() == 113
    assert (d[same] == 0).all()
    assert (d[~same] > 0).all()
    (gradient,) = torch.autograd.grad(d[same].sum(), rows)
    assert (gradient == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("nearness", [10.0**-power for power in range(9)])
def test_rows_at_any_distance_have_that_of_the_definition_and_its_gradient(
    dtype: torch.dtype, nearness: float
) -> None:
    rows = random_rows(20, 768).to(dtype).requires_grad_()
    candidates = (rows + nearness * random_rows(20, 768, seed=1)).to(dtype).detach().requires_grad_()
    d = distances(rows, candidates, "euclidean").diagonal()
    exact = (rows.double() - candidates.double()).norm(dim=1)
    bound = rounding_error(768, dtype) ** 0.5
    torch.testing.assert_close(d.double(), exact, rtol=bound, atol=0)
    expected = torch.autograd.grad(exact.sum(), (rows, candidates))
    for gradient, slow in zip(torch.autograd.grad(d.sum(), (rows, candidates)), expected, strict=True):
        torch.testing.assert_close(gradient, slow, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 10, 1000, 100_000])
def test_the_bound_of_rounding_holds_in_any_order_of_summation(dtype: type, width: int) -> None:
    products = np.random.default_rng(0).random(width).astype(dtype) ** 2
    orders = (products, products[::-1], np.sort(products), np.sort(products)[::-1])
    one_by_one = [np.cumsum(order)[-1] for order in orders]
    sums = np.array([*one_by_one, products.sum(), math.fsum(products)], dtype)
    norms = sums[:, None] + sums
    worst = np.abs(norms[..., None] - 2 * sums).max() / norms.min()
    assert worst <= rounding_error(width, torch.float32 if dtype is np.float32 else torch.float64)
    if width == 100_000:
        assert worst > 8 * np.finfo(dtype).eps  # no number of units in the last place does for all widths


def test_a_batch_of_equal_rows_needs_no_tensor_of_differences() -> None:
    rows = random_rows(1, 1024).float().repeat(256, 1).requires_grad_()  # all differences: 268 MB
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        distances(rows, rows, "euclidean").sum().backward()
    assert max(event.cpu_memory_usage for event in profile.function_events or []) < 64e6
    assert rows.grad is not None
    assert (rows.grad == 0).all()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck(name: str, kind: Distance) -> None:
    rows = random_rows(8).requires_grad_()
    groups = all_pairs(torch.tensor([0, 0, 0, 1, 1, 2, 3, 3]))
    assert torch.autograd.gradcheck(lambda r: LOSSES[name](distances(r, r, kind), groups, 0.7)[0], rows)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_the_anchors_add_up_to_the_whole(name: str, kind: Distance) -> None:
    rows = random_rows(20)
    rows[13] = rows[2]
    rows.requires_grad_()
    labels = torch.tensor([0, 1, 2, 3] * 4 + [4, 5, 6, 0])
    labels[13] = labels[2]

    def part(own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        groups = pairs(labels[own], labels, own)
        total, count = LOSSES[name](distances(rows[own], rows, kind), groups, 1.0)
        return total, count, torch.autograd.grad(total, rows)[0]

    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    halves = zip(part(order[:7]), part(order[7:]), strict=True)
    for whole, (one, other) in zip(part(torch.arange(20)), halves, strict=True):
        torch.testing.assert_close(one + other, whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_no_anchors_add_nothing(name: str) -> None:
    rows, nobody = random_rows(3), torch.zeros(0, dtype=torch.long)
    d = distances(rows[nobody], rows, "euclidean")
    total, count = LOSSES[name](d, pairs(nobody, torch.arange(3), nobody), 1.0)
    assert (total.item(), count.item()) == (0, 0)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_computed_in_float32(name: str, dtype: torch.dtype, kind: Distance) -> None:
    rows = (30 * random_rows(12, 64)).to(dtype)
    rows[1] = rows[0]
    rows.requires_grad_()
    groups = all_pairs(torch.arange(12) // 3)
    with torch.autocast("cpu", dtype):
        total, _ = LOSSES[name](distances(rows, rows, kind), groups, 2.0)
    exact, _ = LOSSES[name](distances(rows.double(), rows.double(), kind), groups, 2.0)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total.double(), exact, rtol=1e-4, atol=1e-4)
    (gradient,) = torch.autograd.grad(total, rows)
    assert gradient.isfinite().all()


def test_batch_all_of_a_large_batch_needs_no_tensor_of_triplets() -> None:
    size = 1280  # all triplets in float32: 8 GB
    rows = random_rows(size, 8).float().requires_grad_()
    groups = all_pairs(torch.arange(size) // 10)
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        total, count = batch_all(distances(rows, rows, "euclidean"), groups, 2.0)
        total.backward()
    largest = max(event.cpu_memory_usage for event in profile.function_events or [])
    assert 0 < largest <= 40 * size**2
    assert count.item() > size**2
    assert rows.grad is not None
    assert rows.grad.isfinite().all()
