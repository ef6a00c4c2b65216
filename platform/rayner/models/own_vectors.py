"""Types with vectors of their own: they were added to a trained model, which stays as it is."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class OwnVectors(nn.Module):
    """The vectors of added types, and how far their thresholds lie from where they would be otherwise.

    Args:
        kept: types that were added before; theirs are constant.
        added: types that learn.
        size: of a vector: those for starts, ends and spans beside each other, or one for all three.
    """

    without_decay = ("offsets",)

    def __init__(self, kept: int, added: int, size: int) -> None:
        super().__init__()
        self.kept_vectors: Tensor | None
        self.kept_offsets: Tensor | None
        self.register_buffer("kept_vectors", torch.zeros(kept, size) if kept else None)
        self.register_buffer("kept_offsets", torch.zeros(kept, 3) if kept else None)
        self.vectors = nn.Parameter(torch.zeros(added, size))
        self.offsets = nn.Parameter(torch.zeros(added, 3))

    def __len__(self) -> int:
        return len(self.vectors) + (0 if self.kept_vectors is None else len(self.kept_vectors))

    def all_vectors(self) -> Tensor:
        """[A, size], of any length."""
        return _joined(self.kept_vectors, self.vectors)

    def all_offsets(self) -> Tensor:
        """[A, 3], of start, end and span, as cosines."""
        return _joined(self.kept_offsets, self.offsets)

    @torch.no_grad()
    def start_from(self, before: OwnVectors | None, vectors: Tensor) -> None:
        """Keep those of an earlier addition, and begin with `vectors` [added, size] and no offset."""
        self.vectors.copy_(vectors)
        if before is not None and self.kept_vectors is not None and self.kept_offsets is not None:
            self.kept_vectors.copy_(before.all_vectors())
            self.kept_offsets.copy_(before.all_offsets())


def _joined(kept: Tensor | None, added: Tensor) -> Tensor:
    return added if kept is None else torch.cat([kept, added])
