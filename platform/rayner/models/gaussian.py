"""Gaussian embeddings of words (papers/004, section 2.1; CONTaiNER, Das et al. 2022)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rayner.losses.gaussian import Gaussians
from rayner.models.encoder import Encoder

EPSILON = math.exp(-14)
"""Added to variances, so that none is 0 (equation 1)."""
_DEVIATION = 0.02
"""Of the heads' first weights, as in the published code."""


class GaussianEncoder(nn.Module):
    """Gives a word a normal distribution with diagonal covariance.

    Args:
        text_encoder: encodes windows.
        size: dimensions of the Gaussians.
        dropout: on the hidden states before the heads, and within the encoder.
    """

    def __init__(self, text_encoder: Encoder, size: int, dropout: float) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.text_encoder.set_dropout(dropout)
        self.dropout = nn.Dropout(dropout)
        self.mean = nn.Linear(text_encoder.hidden_size, size)
        self.variance = nn.Linear(text_encoder.hidden_size, size)
        for head in (self.mean, self.variance):
            nn.init.normal_(head.weight, std=_DEVIATION)
            nn.init.zeros_(head.bias)

    def forward(self, ids: Tensor, mask: Tensor, words: tuple[Tensor, ...]) -> Gaussians:
        """The Gaussians of N words, in float32 at least.

        Args:
            ids, mask: [B, L] windows, and which of their positions are real.
            words: int64 [N] each, the window and the position that stand for a word.
        """
        hidden = self.dropout(self.text_encoder(ids, mask)[words]).relu()
        # In half precision, variances near 0 would be 0.
        with torch.autocast(hidden.device.type, enabled=False):
            hidden = hidden.to(self.mean.weight.dtype)
            return Gaussians(self.mean(hidden), nn.functional.elu(self.variance(hidden)) + 1 + EPSILON)
