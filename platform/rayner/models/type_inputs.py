"""The texts of types as the type encoder reads them, and the states that stand for them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rayner.models.encoder import Encoder

_ROWS_TOGETHER = 8
_ROWS_ON_A_GPU = 64


class TypeInputs(NamedTuple):
    """The texts that stand for K types; several rows may belong to one type."""

    ids: Tensor
    """int64 [N, T]"""
    mask: Tensor
    """bool [N, T]"""
    anchor: Tensor
    """int64 [N]: the position whose state represents the text: 0, or the start marker of a prototype"""
    type_index: Tensor
    """int64 [N]: the type of each row, below K"""
    states: Tensor | None = None
    """[N, H]: what `BiEncoder.type_states` gave for these rows, if the type encoder is not to run again"""


def anchor_states(encoder: Encoder, types: TypeInputs) -> Tensor:
    """The state at each row's anchor; on a CPU, where padding costs, rows of like length go together.

    Where nothing is learned only rows of equal length do: then no state depends on the other rows; and
    elsewhere than on a CPU, memory is taken for a round of rows at a time.
    """
    if types.ids.device.type != "cpu":
        every = torch.arange(len(types.ids), device=types.ids.device)
        rounds = [every] if torch.is_grad_enabled() else every.split(_ROWS_ON_A_GPU)
        found = [
            encoder(types.ids[rows], types.mask[rows])[rows - rows[:1], types.anchor[rows]] for rows in rounds
        ]
        return torch.cat(found)
    lengths = types.mask.sum(1)
    order = lengths.argsort()
    states = []
    parts = (
        [order] if torch.is_grad_enabled() else order.split(lengths.unique(return_counts=True)[1].tolist())
    )
    for rows in (rows for part in parts for rows in part.split(_ROWS_TOGETHER)):
        length = int(lengths[rows[-1]])
        # A short row alone would be multiplied as in `enough_rows`.
        taken = rows.repeat(2) if len(rows) * length < 4 else rows
        hidden = encoder(types.ids[taken, :length], types.mask[taken, :length])
        states.append(hidden[torch.arange(len(rows)), types.anchor[rows]])
    return torch.cat(states)[order.argsort()]
