"""One vector for a name (papers/002, section 3.4)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rayner.config import NameEncoderSettings
from rayner.models.encoder import Encoder


class NameEncoder(nn.Module):
    """Pools the hidden states of a name's sub-words.

    Args:
        text_encoder: encodes names.
        settings: the pooling, the width of the projection after it, whether vectors have length 1, and every
            dropout.
    """

    def __init__(self, text_encoder: Encoder, settings: NameEncoderSettings) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.text_encoder.set_dropout(settings.dropout)
        self.settings = settings
        self.size = settings.projection_size or text_encoder.hidden_size
        self.projection: nn.Linear | None = None
        if settings.projection_size is not None:
            self.projection = nn.Linear(text_encoder.hidden_size, settings.projection_size)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Vectors [B, D], in float32 at least, of `ids` [B, L] with special tokens, real where `mask`."""
        states = self.text_encoder(ids, mask)
        vectors = pool(states, mask, self.settings.pooling)
        if self.projection is not None:
            vectors = self.projection(vectors)
        vectors = vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors
        return F.normalize(vectors, dim=1) if self.settings.normalize else vectors


def pool(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """[B, H] of states [B, L, H]: the mean or the maximum of those under `mask` [B, L], or the first."""
    if pooling == "cls":
        return states[:, 0]
    real = mask.unsqueeze(-1)
    if pooling == "max":
        return states.masked_fill(~real, -torch.inf).amax(1)
    return states.masked_fill(~real, 0).sum(1) / real.sum(1)
