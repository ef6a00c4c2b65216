"""Batches of the typer: windows, and the types of their mentions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rayner.data.batches import TOKENS_PER_BATCH


@dataclass(frozen=True, slots=True)
class TypeBatch:
    """Windows, and the types of their mentions.

    Attributes:
        ids, mask: [B, L] sub-words with special tokens.
        rows, places: [M] where the vector of each mention is read.
        right: [P, 2] mention and type, of those that are right.
        known: mentions, and the types that their documents were annotated for (None: all). Without any, all
            types are known of all mentions.
        states: [M, H] hidden states of the mentions, where the encoder does not learn.
    """

    ids: Tensor
    mask: Tensor
    rows: Tensor
    places: Tensor
    right: Tensor
    known: Sequence[tuple[Tensor, Tensor | None]]
    states: Tensor | None = None


def by_tokens(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Neighbouring rows, about as many as a forward pass takes."""
    batch: list[dict[str, Any]] = []
    for row in rows:
        longest = max(other["length"] for other in (*batch, row))
        if batch and longest * (1 + len(batch)) > TOKENS_PER_BATCH:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def stored_states(examples: Sequence[Mapping[str, Any]]) -> Tensor:
    """The stored hidden states of the mentions of all rows, [M, H]."""
    rows = [np.asarray(e["states"], np.float32).reshape(len(e["places"]), -1) for e in examples]
    return torch.from_numpy(np.concatenate(rows))


def joined(rows: Sequence[Any]) -> np.ndarray:
    """A column of numbers of all rows, int64 [N]."""
    return np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])


def known_groups(
    known: Sequence[tuple[int, ...]], sizes: Sequence[int]
) -> list[tuple[Tensor, Tensor | None]]:
    """The mentions of the rows by the types that are known of them; none where all types are, of all rows."""
    if not any(known):
        return []
    of_mention = np.repeat(np.arange(len(known)), sizes)
    groups: list[tuple[Tensor, Tensor | None]] = []
    for types in dict.fromkeys(known):
        rows = [row for row, own in enumerate(known) if own == types]
        mentions = torch.from_numpy(np.flatnonzero(np.isin(of_mention, rows)))
        groups.append((mentions, torch.tensor(types, dtype=torch.int64) if types else None))
    return groups
