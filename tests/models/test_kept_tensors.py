"""Tensors that are kept as far as there is room."""

from __future__ import annotations

import torch

from rayner.models.kept_tensors import KeptTensors


def test_a_part_that_is_kept_keeps_no_more_than_itself() -> None:
    kept = KeptTensors(100)
    kept.keep("a", torch.zeros(1000, 4)[3])
    found = kept.get("a")
    assert found is not None
    assert found.untyped_storage().nbytes() == 16


def test_what_there_is_no_room_for_is_not_kept() -> None:
    kept = KeptTensors(20)
    for key in "ab":
        kept.keep(key, torch.zeros(4))
    assert kept.get("a") is not None
    assert kept.get("b") is None
