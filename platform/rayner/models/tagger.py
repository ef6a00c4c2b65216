"""Token classification: a linear head on the encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rayner.models.encoder import Encoder


class Tagger(nn.Module):
    """Gives every sub-word a score for every label.

    Args:
        text_encoder: encodes windows.
        labels: their number.
        dropout: on the hidden states before the head, and within the encoder.
        crf: whether it has scores of labels that follow each other, at first 0.
        calibrated: whether it has a temperature, by which logits are divided before they are probabilities.
    """

    between: nn.Parameter | None
    """[labels, labels] of a label (second) after another (first)"""
    temperature: Tensor | None

    def __init__(
        self, text_encoder: Encoder, labels: int, dropout: float, crf: bool = False, calibrated: bool = False
    ) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.text_encoder.set_dropout(dropout)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(text_encoder.hidden_size, labels)
        self.register_parameter("between", nn.Parameter(torch.zeros(labels, labels)) if crf else None)
        self.register_buffer("temperature", torch.ones(()) if calibrated else None)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Logits [B, L, labels], before any temperature, of the windows `ids` [B, L], real where `mask`."""
        return self.linear(self.dropout(self.text_encoder(ids, mask)))
