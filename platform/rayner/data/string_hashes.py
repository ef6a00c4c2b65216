"""Numbers of strings that are the same in every process and on every machine, as those of `hash` are not."""

from __future__ import annotations

import hashlib


def number_of(text: str) -> int:
    """A number of 64 bits with a sign, as tensors have them."""
    return int.from_bytes(_digest(text), signed=True)


def fraction_of(text: str) -> float:
    """A number in [0, 1)."""
    return int.from_bytes(_digest(text)) / 2**64


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
