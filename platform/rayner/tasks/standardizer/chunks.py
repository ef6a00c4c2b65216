"""Names in chunks of about equal length, and fewer, larger ones for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

ROWS_PER_CHUNK = 32

Chunk = tuple[Tensor, Tensor]
"""Ids [B, L] with special tokens, and which are real."""


@dataclass(frozen=True, slots=True)
class NameBatch:
    """Names in chunks of about equal length; `entities` [B, 1] are those of all chunks, in order."""

    chunks: list[Chunk]
    entities: Tensor
    words: int


def by_length(
    rows: Sequence[np.ndarray],
    entities: Sequence[int],
    words: int,
    padded: Callable[[Sequence[np.ndarray]], Chunk],
) -> NameBatch:
    """The sub-words of names, each of an entity, in chunks of about equal length."""
    order = np.argsort([len(row) for row in rows], kind="stable")
    chunks = [order[i : i + ROWS_PER_CHUNK] for i in range(0, len(order), ROWS_PER_CHUNK)]
    keys = torch.tensor([[entities[i]] for i in order], dtype=torch.int64)
    return NameBatch([padded([rows[i] for i in chunk]) for chunk in chunks], keys, words)


def merged(chunks: Sequence[Chunk], budget: int) -> Iterator[Chunk]:
    """Neighbouring chunks as one, up to so many padded tokens together."""
    held: list[Chunk] = []
    for chunk in chunks:
        rows = sum(len(ids) for ids, _ in (*held, chunk))
        longest = max(ids.shape[1] for ids, _ in (*held, chunk))
        if held and rows * longest > budget:
            yield _padded_together(held)
            held = []
        held.append(chunk)
    if held:
        yield _padded_together(held)


def _padded_together(chunks: Sequence[Chunk]) -> Chunk:
    longest = max(ids.shape[1] for ids, _ in chunks)
    # Nothing depends on what lies beside a text, `models.encoder` sees to that: any id pads.
    padded = [[F.pad(part, (0, longest - part.shape[1])) for part in chunk] for chunk in chunks]
    return torch.cat([ids for ids, _ in padded]), torch.cat([mask for _, mask in padded])
