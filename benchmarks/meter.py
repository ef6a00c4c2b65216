"""What a step costs: seconds and peak memory."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import torch

_REPEATS_ON_GPU = 10
_STATUS = Path("/proc/self/status")


class Meter:
    """Measures on a device: CPU time of this process, or wall time of a GPU."""

    def __init__(self, device: str, precision: str) -> None:
        self.device = torch.device(device)
        self._precision: torch.dtype = getattr(torch, precision)

    def autocast(self) -> AbstractContextManager[object]:
        """The context of a forward pass in the precision."""
        return torch.autocast(self.device.type, self._precision, enabled=self._precision != torch.float32)

    def seconds(self, step: Callable[[], object]) -> float:
        """The time that a step takes; each under an autocast of its own, which rounds the weights anew."""
        if self.device.type == "cpu":
            begin = time.process_time()
            self._once(step)
            return time.process_time() - begin
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(_REPEATS_ON_GPU):
            self._once(step)
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / _REPEATS_ON_GPU

    def _once(self, step: Callable[[], object]) -> None:
        with self.autocast():
            step()

    def peak_mb(self, step: Callable[[], object]) -> float:
        """How far a step raises the memory of this process, or of the GPU's allocator; CPU: Linux only."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            step()
            return (torch.cuda.max_memory_allocated() - before) / 2**20
        before = resident_mb("VmRSS", anew=True)
        step()
        return resident_mb("VmHWM") - before


def resident_mb(key: str, anew: bool = False) -> float:
    """What of this process is resident now (`VmRSS`), or was at most (`VmHWM`); no number but on Linux.

    Args:
        anew: whether the peak starts from now.
    """
    if not _STATUS.is_file():
        return float("nan")
    if anew:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # else what comes grows into what earlier steps left behind
        Path("/proc/self/clear_refs").write_text("5")
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) / 1024
