"""What scores pairs of a sentence and a context: a ranker that was trained here, or one of Hugging Face."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from rayner.data.batches import COST_OF_A_FORWARD, tokens_per_batch_of
from rayner.errors import CheckpointError, InputError
from rayner.metrics.ranking import THRESHOLD, score_relevance
from rayner.models.rerankers import PretrainedReranker, ReadPair
from rayner.supervision.context_rows import ContextRow
from rayner.tasks.ranker.pair_splits import Relevance

Window = TypeVar("Window", bound=Any)


class PairRanker(ABC, Generic[Window]):
    """Scores pairs of a sentence and a context, from 0 to 1; `name` says in errors which it is.

    `subwords`, `pair`, `length_of` and `scores` are left to say.
    """

    forward_cost = COST_OF_A_FORWARD
    whole = False

    def __init__(self, name: str, tokens_per_batch: int) -> None:
        self.name, self.tokens_per_batch = name, tokens_per_batch

    @abstractmethod
    def subwords(self, text: str) -> list[int]:
        """Those of a sentence or of a context."""

    @abstractmethod
    def pair(self, sentence: Sequence[int], context: Sequence[int]) -> Window:
        """The pair of sub-words as the model reads it."""

    @abstractmethod
    def length_of(self, window: Window) -> int:
        """Sub-words of the pair, special tokens included."""

    @abstractmethod
    def scores(self, windows: Sequence[Window]) -> Tensor:
        """The score [B] of each pair."""

    def prepare(self, item: ContextRow) -> list[Window]:
        """The pair as the model reads it.

        Raises:
            InputError: a text or a document.
        """
        if not isinstance(item, ContextRow):
            hint = "write it into a pipeline file before a stage that finds mentions, or give pairs"
            raise InputError("ranker", "scores pairs of a sentence and a context, not texts", hint)
        return [self.pair(self.subwords(item.sentence), self.subwords(item.context))]

    @torch.inference_mode()
    def forward(self, windows: Sequence[Window]) -> list[float]:
        """The score of each pair.

        Raises:
            CheckpointError: a score that is no number.
        """
        return self.checked(self.scores(windows)).tolist()

    def checked(self, scores: Tensor) -> Tensor:
        """The scores, all of which are numbers.

        Raises:
            CheckpointError: one is not.
        """
        if not bool(scores.isfinite().all()):
            what = "gives a score that is no number"
            raise CheckpointError(self.name, what, "train it again, or name another")
        return scores

    def finish(self, item: ContextRow, windows: Sequence[Window], scores: Sequence[float]) -> Relevance:
        """The score of the pair."""
        return Relevance(scores[0], scores[0] > THRESHOLD, windows[0].cut)

    def evaluate(self, predicted: Sequence[Relevance], gold: Sequence[ContextRow]) -> dict[str, Any]:
        """The metrics of the pairs, and how many of them were `cut` to fit."""
        scores = score_relevance([pair.relevant for pair in gold], [answer.score for answer in predicted])
        return {**scores, "cut": sum(answer.cut > 0 for answer in predicted)}


class PretrainedRanker(PairRanker[ReadPair]):
    """A reranker of Hugging Face, as it answers."""

    def __init__(self, model: PretrainedReranker) -> None:
        super().__init__(model.where, tokens_per_batch_of(model))
        self._model = model

    def subwords(self, text: str) -> list[int]:
        """Those of a sentence or of a context."""
        return self._model.subwords(text)

    def pair(self, sentence: Sequence[int], context: Sequence[int]) -> ReadPair:
        """As `PretrainedReranker.pair`."""
        return self._model.pair(sentence, context)

    def save(self, folder: Path) -> None:
        """Write the model, as `load_reranker` reads it."""
        self._model.save(folder)

    def length_of(self, window: ReadPair) -> int:
        """Sub-words of the pair, with all that is around its texts."""
        return len(window.ids)

    def scores(self, windows: Sequence[ReadPair]) -> Tensor:
        """The score [B] of each pair."""
        return self._model(windows)
