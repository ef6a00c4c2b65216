"""Vectors in bfloat16 propose what is nearest, and the vectors themselves decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from rayner.retrieval import dense, exact
from rayner.retrieval import rounded as of_module
from rayner.retrieval.approximate import build_approximate
from rayner.retrieval.dense import DenseSide
from rayner.retrieval.rounded import is_faster, nearest_of_rounded, rounded


def unit_vectors(rows: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(rows, 24)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_bits_are_those_of_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = unit_vectors(50, 1)
    monkeypatch.setattr(exact, "ROWS", 7)
    found = torch.as_tensor(rounded(vectors)).view(torch.bfloat16)
    assert torch.equal(found, torch.as_tensor(vectors - vectors.mean(0, dtype=np.float64)).bfloat16())


def test_what_is_nearest_by_the_vectors_is_found_in_their_order() -> None:
    vectors, queries = unit_vectors(4000, 1), unit_vectors(30, 2)
    # Rounding alone would not tell these from each other.
    vectors[:20] = vectors[0] + np.float32(1e-4) * unit_vectors(20, 3)
    queries[0] = vectors[0]
    table, asked = torch.as_tensor(vectors), torch.as_tensor(queries)
    true = exact.nearest(asked, table, None, 20)[1].numpy()
    np.testing.assert_array_equal(nearest_of_rounded(asked, table, rounded(vectors), 20), true)
    alone = exact.nearest(asked.bfloat16(), table.bfloat16(), None, 20)[1].numpy()
    assert not np.array_equal(alone, true)


def test_vectors_that_share_a_direction_are_told_apart() -> None:
    vectors, queries = unit_vectors(6000, 1) + np.float32(1), unit_vectors(20, 2) + np.float32(1)
    table, asked = (F.normalize(torch.as_tensor(rows), dim=1) for rows in (vectors, queries))
    assert (table[:100] @ table[100:200].T).mean() > 0.9
    true = exact.nearest(asked, table, None, 64)[1].numpy()
    np.testing.assert_array_equal(nearest_of_rounded(asked, table, rounded(table.numpy()), 64), true)


def test_more_than_there_are_are_all() -> None:
    vectors = unit_vectors(5, 1)
    found = nearest_of_rounded(torch.as_tensor(vectors), torch.as_tensor(vectors), rounded(vectors), 9)
    assert found.shape == (5, 5)
    np.testing.assert_array_equal(found[:, 0], np.arange(5))


@pytest.mark.parametrize("faster", [True, False])
def test_a_dense_side_takes_them_where_the_processor_is_faster_with_them(
    monkeypatch: pytest.MonkeyPatch, faster: bool
) -> None:
    vectors = unit_vectors(3000, 1)
    lists = replace(build_approximate(vectors, "ivf", 0.0, True), effort=16)
    monkeypatch.setattr(dense, "is_faster", lambda: faster)
    # Other vectors than the side has, so that it shows which ones proposed.
    side = DenseSide(vectors, "cosine", lists, rounded(vectors[::-1].copy()), device="cpu")
    queries = side.prepare(unit_vectors(60, 2))
    true = side.nearest(queries, 10, approximately=False)
    assert np.array_equal(side.nearest(queries, 10), true) != faster
    # From fewer queries on: the other way takes less time.
    assert [lists.is_slower(20, rounded) for rounded in (True, False)] == [True, False]
    few = side.nearest(queries[:1], 10)
    np.testing.assert_array_equal(few, lists.nearest(queries[:1].numpy(), 10))


@pytest.mark.parametrize(("seconds", "faster"), [((1.0, 0.5), True), ((1.0, 0.9), False)])
def test_a_timing_says_which_is_faster(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, float], faster: bool
) -> None:
    taken = dict(zip((torch.float32, torch.bfloat16), seconds, strict=True))
    monkeypatch.setattr(of_module, "_seconds", lambda left, right: taken[left.dtype])
    assert is_faster.__wrapped__() == faster
