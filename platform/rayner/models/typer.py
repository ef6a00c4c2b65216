"""Scores of types for mentions: a mention's vector against one of each type (papers/003, section 3.1)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rayner.config.typer import TyperSettings
from rayner.models.encoder import Encoder
from rayner.models.kept_tensors import KeptTensors
from rayner.models.name_encoder import pool


class TypeTable(NamedTuple):
    """What mention vectors are multiplied with: weights [K, D] and biases [K]."""

    weight: Tensor
    bias: Tensor

    def scores(self, vectors: Tensor) -> Tensor:
        """Logits [M, K] of mention vectors [M, D]: one matrix product."""
        return F.linear(vectors, self.weight, self.bias)


class LinearHead(nn.Module):
    """A learned vector and bias for each type."""

    def __init__(self, hidden_size: int, types: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, types)
        nn.init.constant_(self.linear.bias, _rare(types))

    def mentions(self, states: Tensor) -> Tensor:
        """[M, D] of hidden states [M, H]."""
        return states

    def table(self) -> TypeTable:
        """The learned types."""
        return TypeTable(self.linear.weight, self.linear.bias)


class LabelHead(nn.Module):
    """Projections of mentions and of encoded type names into one space; they start equal.

    `type_vectors` [K, H] are the encoded names of the learned types, which training leaves as they are.
    """

    type_vectors: Tensor

    def __init__(self, hidden_size: int, types: int, size: int) -> None:
        super().__init__()
        self.mention_projection = nn.Linear(hidden_size, size)
        self.type_projection = nn.Linear(hidden_size, size)
        self.type_projection.load_state_dict(self.mention_projection.state_dict())
        self.bias = nn.Parameter(torch.tensor([_rare(types)]))
        self.register_buffer("type_vectors", torch.zeros(types, hidden_size))

    def mentions(self, states: Tensor) -> Tensor:
        """[M, D] of hidden states [M, H]."""
        return self.mention_projection(states)

    def table(self, type_vectors: Tensor | None = None) -> TypeTable:
        """The learned types, or those with these encoded names."""
        weight = self.type_projection(self.type_vectors if type_vectors is None else type_vectors)
        return TypeTable(weight * weight.shape[1] ** -0.5, self.bias.expand(len(weight)))


class Typer(nn.Module):
    """Gives each mention a score for every type.

    Args:
        text_encoder: encodes windows.
        types: their number.
        settings: the head, and whether the encoder learns.
        type_encoder: encodes names of types and never learns; None where `text_encoder` does it, as it is.

    `kept` is what an encoder that does not learn has read of dev, which it does once, not in each evaluation:
    the hidden states [M, H] of the mentions of windows, by the windows' ids and places. None for one that
    learns.
    """

    thresholds: Tensor

    def __init__(
        self, text_encoder: Encoder, types: int, settings: TyperSettings, type_encoder: Encoder | None = None
    ) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.text_encoder.set_dropout(settings.dropout)
        self.is_tuned = settings.train_encoder
        self.text_encoder.requires_grad_(self.is_tuned)
        self.type_encoder = type_encoder
        if type_encoder is not None:
            type_encoder.requires_grad_(False)
        self.dropout = nn.Dropout(settings.dropout)
        hidden = text_encoder.hidden_size
        self.head: LinearHead | LabelHead = (
            LinearHead(hidden, types)
            if settings.head == "linear"
            else LabelHead(hidden, types, settings.projection_size)
        )
        self.register_buffer("thresholds", torch.zeros(types))
        self.kept = None if self.is_tuned else KeptTensors()

    def train(self, mode: bool = True) -> Typer:
        """Encoders that do not learn stay without dropout."""
        super().train(mode)
        if not self.is_tuned:
            self.text_encoder.eval()
        if self.type_encoder is not None:
            self.type_encoder.eval()
        return self

    def vectors(self, ids: Tensor, mask: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """[M, D] of mentions, each read at a place of a row of `ids` [B, L], real where `mask`."""
        return self.head.mentions(self.dropout(self.states(ids, mask, rows, places)))

    def states(self, ids: Tensor, mask: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """The hidden states [M, H] of mentions; see `vectors`."""
        with contextlib.nullcontext() if self.is_tuned else torch.no_grad():
            return self.text_encoder(ids, mask)[rows, places]

    def forward(self, ids: Tensor, mask: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Logits [M, K] of all learned types."""
        return self.head.table().scores(self.vectors(ids, mask, rows, places))

    def of_states(self, states: Tensor) -> Tensor:
        """Logits [M, K] of all learned types, from the hidden states [M, H] of mentions."""
        return self.head.table().scores(self.head.mentions(self.dropout(states)))

    @torch.no_grad()
    def encode_names(self, batches: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """[K, H] of names, in batches of ids and mask: means of hidden states, each of length sqrt(H)."""
        encoder = self.type_encoder or self.text_encoder
        was_training = encoder.training
        encoder.eval()
        device = next(encoder.parameters()).device
        states = [
            pool(encoder(ids.to(device), mask.to(device)), mask.to(device), "mean") for ids, mask in batches
        ]
        encoder.train(was_training)
        return F.normalize(torch.cat(states), dim=1) * encoder.hidden_size**0.5


def _rare(types: int) -> float:
    """The logit of one type in `types`: nearly all types of a mention are wrong, from the first step on."""
    return -math.log(max(types, 2))
