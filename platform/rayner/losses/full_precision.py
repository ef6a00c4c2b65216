"""Numbers that sums and comparisons need."""

from __future__ import annotations

import torch
from torch import Tensor


def exact(values: Tensor) -> Tensor:
    """The values in float32 at least: of numbers of 16 bits sums are off, and scores are often equal."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
