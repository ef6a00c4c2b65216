"""What a frozen encoder says of a window, computed once."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.models.kept_tensors import BYTES, KeptTensors


class FrozenFeatures:
    """The hidden states of windows by their sub-words.

    Each window is encoded alone, so that its states depend neither on its batch nor on when they were
    computed: a resumed run sees the same. Beyond so many bytes they are computed each time.
    """

    def __init__(self, encode: Callable[[Tensor, Tensor], Tensor], limit: int = BYTES) -> None:
        self._encode = encode
        self._kept = KeptTensors(limit)

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The states of `ids` [B, L], real where `mask`: [B, L, H], 0 elsewhere."""
        lengths = mask.sum(1).tolist()
        # On the host at once: each copy from a GPU waits for it.
        of_rows = zip(ids, ids.cpu().numpy(), lengths, strict=True)
        rows = [self._row(row[:length], key[:length].tobytes()) for row, key, length in of_rows]
        return torch.stack([F.pad(row, (0, 0, 0, ids.shape[1] - len(row))) for row in rows])

    def _row(self, ids: Tensor, key: bytes) -> Tensor:
        if (found := self._kept.get(key)) is not None:
            return found
        # Tensors of inference mode cannot be learned from.
        with torch.inference_mode(False), torch.no_grad():
            given = ids.clone().unsqueeze(0)
            states = self._encode(given, torch.ones_like(given, dtype=torch.bool))[0]
        self._kept.keep(key, states)
        return states
