"""Token classification: a linear head on the encoder."""

from __future__ import annotations

from torch import Tensor, nn

from rayner.models.encoder import Encoder


class Tagger(nn.Module):
    """Gives every sub-word a score for every label.

    Args:
        text_encoder: encodes windows.
        labels: their number.
        dropout: on the hidden states before the head, and within the encoder.
    """

    def __init__(self, text_encoder: Encoder, labels: int, dropout: float) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.text_encoder.set_dropout(dropout)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(text_encoder.hidden_size, labels)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Logits [B, L, labels] of the windows `ids` [B, L], real where `mask`."""
        return self.linear(self.dropout(self.text_encoder(ids, mask)))
