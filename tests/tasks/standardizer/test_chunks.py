from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from rayner.tasks.standardizer.chunks import merged

LENGTHS = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=6)


@given(LENGTHS, st.integers(1, 90))
def test_merged_chunks_hold_the_same_rows_in_order(lengths: list[list[int]], budget: int) -> None:
    chunks = []
    for rows in lengths:
        mask = torch.arange(max(rows))[None] < torch.tensor(rows)[:, None]
        chunks.append((torch.arange(mask.numel()).view(mask.shape) + 1, mask))
    fewer = list(merged(chunks, budget))

    def rows_of(parts: list) -> list[list[int]]:
        return [row[real].tolist() for ids, mask in parts for row, real in zip(ids, mask, strict=True)]

    assert rows_of(fewer) == rows_of(chunks)
    assert all(ids.numel() <= budget or any(ids.shape == one.shape for one, _ in chunks) for ids, _ in fewer)
    rows, longest = sum(map(len, lengths)), max(map(max, lengths))
    assert (len(fewer) == 1) == (len(chunks) == 1 or rows * longest <= budget)
