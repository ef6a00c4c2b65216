"""Tensors that are computed once, as far as there is room for them."""

from __future__ import annotations

from collections.abc import Hashable

from torch import Tensor

BYTES = 1 << 30


class KeptTensors:
    """Tensors by their keys, the first ones that take so many bytes together; further ones are not kept."""

    def __init__(self, limit: int = BYTES) -> None:
        self._kept: dict[Hashable, Tensor] = {}
        self._left = limit

    def get(self, key: Hashable) -> Tensor | None:
        """The tensor; None where it was not kept."""
        return self._kept.get(key)

    def keep(self, key: Hashable, value: Tensor) -> None:
        """Keep a copy of a tensor if there is room: a part of a larger one would keep all of that."""
        size = value.numel() * value.element_size()
        if size <= self._left and key not in self._kept:
            self._kept[key] = value.clone()
            self._left -= size
