"""Which candidates are positives and which are negatives of an anchor."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Pairs(NamedTuple):
    """Pairs of A anchors and C candidates; an anchor's own cell is in neither mask."""

    positive: Tensor
    """bool [A, C]: another member of the anchor's group"""
    negative: Tensor
    """bool [A, C]: a member of another group; within the anchor's story only where that was asked for"""


def pairs(anchor_keys: Tensor, keys: Tensor, own: Tensor, *, within_story: bool = False) -> Pairs:
    """The pairs of anchors that are themselves among the candidates.

    A worker's anchors are its own rows; its candidates are the rows of all workers. Rows with a story too are
    contrasted as in papers/003, section 3.2: positives are of the same chain, negatives of other stories, and
    the other chains of a story are neither, since a link between them may have been missed.

    Args:
        anchor_keys: [A] group of each anchor, or [A, 2] its chain and its story.
        keys: [C] or [C, 2], the same of each candidate. Chains may be numbered anew in each story.
        own: int64 [A] the place of each anchor among the candidates.
        within_story: other chains of the anchor's story are negatives too.
    """
    if keys.ndim == 1:
        anchor_keys, keys = anchor_keys[:, None], keys[:, None]
    same_story = anchor_keys[:, None, -1] == keys[:, -1]
    same = same_story.clone()
    for of_anchors, of_candidates in zip(anchor_keys.T[:-1], keys.T[:-1], strict=True):
        same &= of_anchors[:, None] == of_candidates
    negative = ~same if within_story else ~same_story
    # An anchor has one cell of its own: that needs no mask.
    same[torch.arange(len(own), device=own.device), own] = False
    return Pairs(same, negative)
