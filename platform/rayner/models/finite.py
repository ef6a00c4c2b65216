"""Weights that are no numbers are refused where they are read: a model of such weights answers, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from torch import Tensor

from rayner.counted import counted
from rayner.errors import CheckpointError


def check_finite(weights: Mapping[str, Tensor], where: str | Path, unbounded: Collection[str] = ()) -> None:
    """Refuse weights that are NaN or infinite.

    Args:
        where: the file, or what else they are of.
        unbounded: names that may be infinite, as thresholds are, but not NaN.

    Raises:
        CheckpointError: a tensor holds some.
    """
    for name, tensor in weights.items():
        # Of values one of which is not finite neither is the sum, which costs less than to look at each.
        if tensor.sum().isfinite():
            continue
        wrong = tensor.isnan() if name in unbounded else ~tensor.isfinite()
        if wrong.any():
            what = f"{name} is NaN or infinite in {int(wrong.sum())} of {counted(tensor.numel(), 'value')}"
            raise CheckpointError(str(where), what, "take another checkpoint, or train anew")
