"""How fast a run goes."""

from __future__ import annotations

import time

import torch

from rayner.runtime.training.steps import Step


class Clock:
    """Words, padding and seconds between two readings.

    Args:
        seconds: what the run has taken before this process.
    """

    def __init__(self, seconds: float, device: torch.device) -> None:
        self._earlier, self._device = seconds, device
        self._start = self._last = time.perf_counter()
        self._idle = 0.0
        self._forget()

    @property
    def seconds(self) -> float:
        """What the run has taken in all."""
        return self._earlier + time.perf_counter() - self._start

    def add(self, step: Step) -> None:
        """Count a step."""
        self._steps += 1
        self._tokens += step.tokens
        self._held += step.held
        self._words += sum(size.words for size in step.sizes)
        self._real += sum(size.tokens for size in step.sizes)
        self._places += sum(size.places for size in step.sizes)

    def skip(self, seconds: float) -> None:
        """Leave out time that was not spent on steps."""
        self._idle += seconds

    def read(self, remaining: int) -> dict[str, float]:
        """Speed since the last reading, and the seconds that the remaining steps will take at it."""
        now = time.perf_counter()
        spent = max(now - self._last - self._idle, 1e-9)
        found = {
            # Other workers' words, at as many a token as this worker's.
            "words_per_second": self._tokens / spent * self._words / max(1, self._held),
            "padding": 1 - self._real / self._places if self._places else 0.0,
            "seconds": self.seconds,
            "eta": remaining * spent / max(1, self._steps),
        }
        if self._device.type == "cuda":
            found["gpu_memory"] = torch.cuda.max_memory_allocated(self._device)
        self._last, self._idle = now, 0.0
        self._forget()
        return found

    def _forget(self) -> None:
        self._steps = self._tokens = self._held = self._words = self._real = self._places = 0
