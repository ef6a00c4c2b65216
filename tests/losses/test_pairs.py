"""Which pairs are positives and negatives, read from the definition."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rayner.losses.positives import Pairs, pairs

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=7)


def by_definition(rows: list[tuple[int, int]], own: list[int], within_story: bool) -> Pairs:
    positive = [[b != a and rows[b] == rows[a] for b in range(len(rows))] for a in own]
    negative = [[r[1] != rows[a][1] or (within_story and r[0] != rows[a][0]) for r in rows] for a in own]
    return Pairs(torch.tensor(positive), torch.tensor(negative))


def assert_equal(found: Pairs, expected: Pairs) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.bool
        assert (one == other).all()


def own_of(rows: list[tuple[int, int]]) -> Tensor:
    return torch.arange(len(rows)).flip(0)[: len(rows) // 2 + 1]


@given(ROWS, st.booleans())
def test_pairs_of_chains_and_stories(rows: list[tuple[int, int]], within_story: bool) -> None:
    keys, own = torch.tensor(rows), own_of(rows)
    found = pairs(keys[own], keys, own, within_story=within_story)
    assert_equal(found, by_definition(rows, own.tolist(), within_story))


@given(ROWS, st.booleans())
def test_pairs_of_labels_are_those_where_each_label_is_a_story(
    rows: list[tuple[int, int]], within_story: bool
) -> None:
    labels, own = torch.tensor(rows)[:, 0], own_of(rows)
    found = pairs(labels[own], labels, own, within_story=within_story)
    assert_equal(found, by_definition([(a, a) for a, _ in rows], own.tolist(), within_story))
