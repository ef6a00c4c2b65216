"""The precision that encoders compute in: what a device has, and what it takes unless something is asked
for."""

from __future__ import annotations

import contextlib
from typing import Any, get_args

import torch
from torch import nn

from rayner.config.base import Precision
from rayner.errors import InputError

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[Any]:
    """Within it, products of matrices are computed in the precision; nothing changes for float32."""
    if precision not in _DTYPES:
        return contextlib.nullcontext()
    return torch.autocast(device.type, _DTYPES[precision])


def dtype_of(precision: Precision) -> torch.dtype:
    """As torch calls it."""
    return _DTYPES.get(precision, torch.float32)


def round_weights(module: nn.Module, precision: Precision) -> None:
    """Round the weights of its linear layers for good, so that no batch does it again."""
    if precision != "float32":
        for part in module.modules():
            if isinstance(part, nn.Linear):
                part.to(dtype_of(precision))


def default_precision(device: str | torch.device) -> Precision:
    """float32 on a CPU, bfloat16 on a GPU that has it."""
    device = torch.device(device)
    return "bfloat16" if device.type == "cuda" and _has_bfloat16(device) else "float32"


def check_precision(precision: Precision, device: str | torch.device) -> None:
    """Refuse what a device lacks. A CPU has all of them, if slowly.

    Raises:
        InputError: a GPU without bfloat16, or what is no precision.
    """
    if precision not in (known := get_args(Precision)):
        raise InputError("precision", f"{precision!r} is none", f"one of {', '.join(known)}, auto")
    device = torch.device(device)
    if precision == "bfloat16" and device.type == "cuda" and not _has_bfloat16(device):
        what = f"{torch.cuda.get_device_name(device)} lacks bfloat16"
        raise InputError("precision: bfloat16", what, "take float16 or float32, or leave it out")


def _has_bfloat16(device: torch.device) -> bool:
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)
