"""Reciprocal ranks against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.metrics import retrieval
from rayner.metrics.retrieval import reciprocal_ranks


def by_definition(vectors: np.ndarray, groups: np.ndarray, apart: np.ndarray | None = None) -> list[float]:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = []
    for i in range(len(groups)):
        others = sorted((j for j in range(len(groups)) if j != i), key=lambda j: -float(unit[i] @ unit[j]))
        if apart is not None:
            others = [j for j in others if groups[j] == groups[i] or apart[j] != apart[i]]
        ranks = [rank for rank, j in enumerate(others, 1) if groups[j] == groups[i]]
        if ranks:
            found.append(1 / ranks[0])
    return found


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 99), st.sampled_from([1, 70, 2**24]))
def test_ranks_are_those_of_the_definition(groups: list[int], seed: int, cells: int) -> None:
    stories = np.array(groups, np.int64) // 2
    vectors = np.random.default_rng(seed).normal(size=(len(groups), 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "_CELLS", cells)
        found, among_others = reciprocal_ranks(vectors, np.array(groups, np.int64), stories)
    assert found.tolist() == pytest.approx(by_definition(vectors, np.array(groups)))
    assert among_others.tolist() == pytest.approx(by_definition(vectors, np.array(groups), stories))


def test_of_equally_near_ones_those_of_the_group_come_last() -> None:
    found, among_others = reciprocal_ranks(np.ones((4, 2)), np.array([1, 1, 2, 3]), np.array([0, 0, 0, 1]))
    assert (found.tolist(), among_others.tolist()) == ([1 / 3, 1 / 3], [1 / 2, 1 / 2])


def test_vectors_whose_group_has_no_other_have_no_rank() -> None:
    assert [len(ranks) for ranks in reciprocal_ranks(np.eye(3), np.arange(3), np.arange(3))] == [0, 0]


def test_vectors_that_are_no_numbers_find_nobody() -> None:
    groups, apart = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    vectors = np.eye(4)[[0, 0, 1, 1]]
    vectors[1] = np.nan
    for rows, ranks in ((vectors, [1 / 3, 1 / 3, 1 / 2, 1 / 2]), (np.full((4, 4), np.inf), [1 / 3] * 4)):
        with np.errstate(invalid="ignore"):
            assert reciprocal_ranks(rows, groups, apart)[0].tolist() == ranks
    found = reciprocal_ranks(np.full((4, 4), np.nan), groups, apart)
    assert [one.tolist() for one in found] == [[1 / 3] * 4, [1 / 2] * 4]
