"""Blocks and groups find what sorting all scores finds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rayner.retrieval import exact


@given(
    rows=st.integers(1, 700),
    queries=st.integers(0, 9),
    k=st.integers(1, 80),
    block=st.sampled_from([7, 96, 512, 1000]),
    shifted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_k_largest(rows: int, queries: int, k: int, block: int, shifted: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Whole numbers: sums are exact, and many are equal.
    vectors = torch.randint(-3, 4, (rows, 5), generator=generator).float()
    asked = torch.randint(-3, 4, (queries, 5), generator=generator).float()
    offsets = vectors.square().sum(1) / -2 if shifted else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "ROWS", block)
        patch.setattr(exact, "QUERIES", 4)
        values, found = exact.nearest(asked, vectors, offsets, k)
    scores = asked @ vectors.T + (0 if offsets is None else offsets)
    assert torch.equal(values, scores.sort(1, descending=True).values[:, :k])
    assert torch.equal(scores.gather(1, found), values)
    assert all(len(set(row.tolist())) == len(row) for row in found)
