"""Positives and negatives among words with labels, of documents that were annotated for different types."""

from __future__ import annotations

import torch
from torch import Tensor

from rayner.losses.positives import Pairs

_BITS = 62


def label_keys(labels: Tensor, known: Tensor, words: Tensor) -> Tensor:
    """Keys int64 [N, 2 + ceil(K / 62)] of words as windows show them, which `label_pairs` reads.

    Args:
        labels: int64 [N] 0 outside of mentions.
        known: bool [N, K] the types that the word's document was annotated for.
        words: int64 [N] a number of the word, equal where two windows show the same one.
    """
    parts = [
        (part.long() << torch.arange(part.shape[1], device=part.device)).sum(1)
        for part in known.split(_BITS, 1)
    ]
    return torch.stack([labels, *parts, words], 1)


def label_pairs(keys: Tensor, own: Tensor, types: Tensor) -> Pairs:
    """Pairs of anchors and candidates whose labels are known to agree, and known to differ.

    Where all documents were annotated for all types, those are equal and other labels (papers/004, section
    2.2). Where not: a word in a mention differs from another label if the document of one of the two was
    annotated for the type of the other. Two words outside agree if their documents were annotated for the
    same types; else either may be in a mention that nobody annotated, and they are neither. So are a word and
    itself, also as another window shows it.

    Args:
        keys: [C, k] of the candidates, by `label_keys`.
        own: int64 [A] the places of the anchors among the candidates.
        types: int64 [labels] the type, from 0, of each label; that of label 0 is not read.
    """
    labels, sets, words = keys[:, 0], keys[:, 1:-1], keys[:, -1]
    shifts = torch.arange(_BITS, device=keys.device)
    known = ((sets[:, :, None] >> shifts) & 1).flatten(1).bool()
    of_labels = types.to(keys.device, non_blocking=True)[labels]
    inside = labels > 0
    knows = known[own][:, of_labels] & inside
    known_by = known[:, of_labels[own]].T & inside[own, None]
    same = labels[own, None] == labels
    other = words[own, None] != words
    negative = (knows | known_by) & ~same & other
    positive = same & (inside | (sets[own, None] == sets).all(-1)) & other
    return Pairs(positive, negative)
