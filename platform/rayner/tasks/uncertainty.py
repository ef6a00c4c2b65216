"""How uncertain a model is about documents: which of them would teach it most if they were annotated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from rayner.data.batches import COST_OF_A_FORWARD, TOKENS_PER_BATCH
from rayner.data.schema import Document
from rayner.tasks.document_windows import TextWindow

OfWords = Callable[[Sequence[TextWindow]], list[np.ndarray]]
"""Windows -> for each the uncertainty [W] of the words that start in it; the more, the less certain."""


class KnowsUncertainty(Protocol):
    """A task over documents whose model says how uncertain it is about each word."""

    def windows_of(self, document: Document) -> list[TextWindow]:
        """The windows of a document."""
        ...

    def uncertainty(self, model: nn.Module) -> OfWords:
        """The model's uncertainty about words."""
        ...


class Uncertainty(NamedTuple):
    """The mean uncertainty of a document's words, 0 where it has none, and their number."""

    score: float
    words: int


class UncertaintyPredictor:
    """Answers a document with the mean uncertainty of its words.

    The mean over words is that of maximum normalized log-probability (MNLP; Shen et al. 2018, Deep Active
    Learning for Named Entity Recognition, section 4), without which the longest documents come first. Where
    words have independent labels, minus their log-probability is exactly MNLP with its sign turned.
    """

    forward_cost = COST_OF_A_FORWARD
    tokens_per_batch = TOKENS_PER_BATCH
    whole = True

    def __init__(self, task: KnowsUncertainty, model: nn.Module) -> None:
        self._task = task
        self._of_words = task.uncertainty(model.eval())

    def prepare(self, item: Document) -> list[TextWindow]:
        """The windows of a document."""
        return self._task.windows_of(item)

    def length_of(self, window: TextWindow) -> int:
        """Sub-words of the window, special tokens included."""
        return len(window)

    @torch.inference_mode()
    def forward(self, windows: Sequence[TextWindow]) -> list[np.ndarray]:
        """[W] of the words of each window."""
        return self._of_words(windows)

    def finish(
        self, item: Document, windows: Sequence[TextWindow], scores: Sequence[np.ndarray]
    ) -> Uncertainty:
        """The mean, each word as the window has it that shows most of its context."""
        if not windows:
            return Uncertainty(0.0, 0)
        words = len(windows[0].subwords.words)
        found, most = np.zeros(words), np.full(words, -1.0)
        for window, of_words in zip(windows, scores, strict=True):
            better = window.shown_around > most[window.words]
            chosen = window.words[better]
            found[chosen], most[chosen] = of_words[better], window.shown_around[better]
        return Uncertainty(float(found.mean()), words)

    def evaluate(self, predicted: Sequence[Uncertainty], gold: Sequence[Document]) -> dict[str, Any]:
        """Nothing: there is no gold."""
        return {}
