"""A cross-encoder that says how relevant a context is to a sentence (papers/001, section 3.3)."""

from __future__ import annotations

from torch import Tensor, nn

from rayner.config import CrossEncoderSettings
from rayner.models.encoder import Encoder
from rayner.models.name_encoder import pool


class CrossEncoder(nn.Module):
    """Gives every pair one logit.

    Args:
        text_encoder: encodes both texts in one sequence.
        settings: the pooling, and every dropout.
    """

    def __init__(self, text_encoder: Encoder, settings: CrossEncoderSettings) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.text_encoder.set_dropout(settings.dropout)
        self.pooling = settings.pooling
        self.dropout = nn.Dropout(settings.dropout)
        self.linear = nn.Linear(text_encoder.hidden_size, 1)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Logits [B] of pairs `ids` [B, L] with special tokens, real where `mask`; sigmoid is the score."""
        pooled = pool(self.text_encoder(ids, mask), mask, self.pooling)
        return self.linear(self.dropout(pooled)).squeeze(1)


def lengths_that_fit(sentence: int, context: int, room: int) -> tuple[int, int]:
    """How many sub-words of a sentence and of a context there is room for: the longer one is cut."""
    of_context = min(context, max(room // 2, room - sentence))
    return min(sentence, room - of_context), of_context
