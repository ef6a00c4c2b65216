"""Models that cost nothing, for `annotate`: they find the capitalized words of a text, or nothing."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from rayner.data.schema import Document, Mention
from rayner.errors import CheckpointError

CAPITALIZED = re.compile(r"\b[A-Z][a-z]+\b")
CHARACTERS_PER_WINDOW = 400


@dataclass(frozen=True)
class Capitals:
    """Finds capitalized words. A text with DIES kills the process, one with FAILS raises.

    Attributes:
        gate: a file without which each process that loads the model waits after some batches.
        batches: how many. Less than half of a run's, or a process ends it before the other has to wait.
        pids: a folder where each process that loads the model leaves its id.
        broken: what is raised on loading.
    """

    version: str = "capitals-1"
    gate: Path | None = None
    pids: Path | None = None
    broken: bool = False
    batches: int = 100

    def load(self, device: str | None) -> Any:
        """The predictor."""
        if self.broken:
            raise CheckpointError("checkpoint", "is broken", "fix it")
        if self.pids is not None:
            (self.pids / str(os.getpid())).touch()
        return FindsCapitals(self.gate, self.batches)


class FindsCapitals:
    """A predictor over documents."""

    forward_cost, tokens_per_batch, whole = 0, 2048, False

    def __init__(self, gate: Path | None = None, batches: int = 0) -> None:
        self._gate, self._batches, self._taken = gate, batches, 0

    def prepare(self, item: Document) -> list[tuple[int, str]]:
        """Pieces of the text, cut at spaces."""
        windows, begin = [], 0
        while begin < len(item.text):
            end = item.text.rfind(" ", begin, begin + CHARACTERS_PER_WINDOW) + 1
            if end <= begin or len(item.text) - begin <= CHARACTERS_PER_WINDOW:
                end = begin + CHARACTERS_PER_WINDOW
            windows.append((begin, item.text[begin:end]))
            begin = end
        return windows

    def length_of(self, window: tuple[int, str]) -> int:
        """Characters, as if they were tokens."""
        return len(window[1])

    def forward(self, windows: Sequence[tuple[int, str]]) -> list[list[tuple[int, int]]]:
        """The places of capitalized words."""
        self._taken += 1
        while self._gate and self._taken > self._batches and not self._gate.exists():
            time.sleep(0.02)
        for _, text in windows:
            if "DIES" in text:
                os.kill(os.getpid(), signal.SIGKILL)
            if "FAILS" in text:
                raise ValueError("it says FAILS")
        return [[(b + m.start(), b + m.end()) for m in CAPITALIZED.finditer(t)] for b, t in windows]

    def finish(
        self,
        item: Document,
        windows: Sequence[tuple[int, str]],
        scores: Sequence[list[tuple[int, int]]],
    ) -> Document:
        """The document with its mentions."""
        mentions = (Mention(s, e, "CAP", score=0.75) for found in scores for s, e in found)
        return replace(item, mentions=tuple(mentions))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """No metrics."""
        return {}


@dataclass(frozen=True)
class BadDevice(Capitals):
    """Finds capitalized words until its device fails, as a GPU does: from then on the process can do nothing.

    Attributes:
        failures: in how many processes it fails, one after the other; needs `pids`.
        error: what the device raises, the name of an error of `torch`.
    """

    failures: int = 0
    error: str = "AcceleratorError"

    def load(self, device: str | None) -> Any:
        """The predictor."""
        super().load(device)
        assert self.pids is not None
        return FindsCapitalsUntil(getattr(torch, self.error), len(list(self.pids.iterdir())) <= self.failures)


class FindsCapitalsUntil(FindsCapitals):
    """Works for two batches."""

    def __init__(self, error: type[Exception], is_bad: bool) -> None:
        super().__init__()
        self._error, self._left = error, 2 if is_bad else 10**9

    def forward(self, windows: Sequence[tuple[int, str]]) -> list[list[tuple[int, int]]]:
        """The places of capitalized words."""
        self._left -= 1
        if self._left < 0:
            raise self._error("CUDA error: an illegal memory access was encountered")
        return super().forward(windows)


@dataclass(frozen=True)
class Nothing(Capitals):
    """Finds nothing, at once."""

    version: str = "nothing-1"

    def load(self, device: str | None) -> Any:
        """The predictor."""
        return FindsNothing()


class FindsNothing(FindsCapitals):
    """Looks at no text."""

    def forward(self, windows: Sequence[tuple[int, str]]) -> list[list[tuple[int, int]]]:
        """Nothing."""
        return [[] for _ in windows]
