"""The context ranker of papers/001: a cross-encoder that scores pairs of a sentence and a context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from rayner.config import RankerRecipe
from rayner.config.documents import ContextChoice, ContextMethods
from rayner.counted import counted
from rayner.data.batches import tokens_per_batch_of
from rayner.losses.relevance import relevance_loss
from rayner.models.ranker import CrossEncoder, lengths_that_fit
from rayner.retrieval.contexts import PAPER_METHODS
from rayner.supervision.context_rows import ContextRow
from rayner.tasks.base import Counts, Metric, Output, ParallelMap, Progress, Seed, Unit
from rayner.tasks.document_windows import SPECIAL_TOKENS
from rayner.tasks.predictor_options import Options
from rayner.tasks.ranker.pair_ranker import PairRanker
from rayner.tasks.ranker.pair_splits import pair_units, read_unit
from rayner.tasks.sentence_vectors import sentence_vectors
from rayner.tasks.unit_task import UnitTask

_BETWEEN = 1
"""[SEP] between sentence and context."""


@dataclass(frozen=True, slots=True)
class PairBatch:
    """Pairs [B, L] with special tokens, real where `mask`, and which are relevant: [B]."""

    ids: Tensor
    mask: Tensor
    relevant: Tensor


class PairWindow(NamedTuple):
    """The sub-words of a pair without the outer special tokens, and how many did not fit."""

    ids: np.ndarray
    cut: int


class RankerOptions(ContextChoice, Options):
    """How a ranker chooses the contexts of each sentence of a document, as `ContextSettings`; the defaults
    are the paper's best (section 5.1)."""

    methods: ContextMethods = PAPER_METHODS
    count: PositiveInt = 3
    candidates: PositiveInt | None = 8


class RankerTask(UnitTask[RankerRecipe]):
    """Learns to tell contexts that help from others."""

    metric = Metric("accuracy")
    weights: Mapping[str, float] = {"relevance": 1.0}

    def units(
        self, split: Literal["train", "dev"], mapper: ParallelMap = map, cache: Path | None = None
    ) -> Sequence[Unit]:
        """Files of pairs, large ones in parts, with the pairs of them that are in the split.

        Raises:
            RecipeError: a path that does not exist.
            FileError: a file that cannot be read.
            CorpusError: a file without pairs, a split that would be empty, or nothing to learn from.
        """
        return pair_units(self.recipe.pairs, split, mapper)

    def read(self, unit: Unit) -> Sequence[ContextRow]:
        """The pairs of a unit.

        Raises:
            FileError: a file that cannot be read, or was changed since the units were found.
        """
        return read_unit(unit)

    def example_settings(self) -> Mapping[str, Any]:
        """The encoder, its tokenizer, and how much of a pair it reads."""
        recipe = self.recipe
        return {"task": recipe.task, **self.encoder_settings, "length": recipe.model.length}

    def pair(self, sentence: Sequence[int], context: Sequence[int]) -> PairWindow:
        """The sub-words of a pair that the model reads: of a longer one the longer side is cut at its end."""
        room = self.recipe.model.length - SPECIAL_TOKENS - _BETWEEN
        of_sentence, of_context = lengths_that_fit(len(sentence), len(context), room)
        ids = [*sentence[:of_sentence], self.tokenizer.sep_id, *context[:of_context]]
        cut = len(sentence) + len(context) - of_sentence - of_context
        return PairWindow(np.array(ids, dtype=np.int32), cut)

    def examples(self, items: Iterable[ContextRow]) -> Iterator[dict[str, Any]]:
        """One row a pair."""
        for item in items:
            window = self.pair(*self.subwords_of(item))
            cut = counted(window.cut, "sub-word")
            left_out = [f"{item.sentence[:80]}: model.length lacks room for {cut} of the pair"]
            yield {
                "ids": window.ids,
                "relevant": item.relevant,
                "length": len(window.ids) + SPECIAL_TOKENS,
                "rejects": left_out if window.cut else [],
            }

    def subwords_of(self, item: ContextRow) -> tuple[list[int], list[int]]:
        """Those of the sentence and of the context."""
        return self.tokenizer(item.sentence)[0], self.tokenizer(item.context)[0]

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> PairBatch:
        """Rows as tensors."""
        ids, mask = self.padded([np.asarray(e["ids"]) for e in examples])
        return PairBatch(ids, mask, torch.tensor([bool(e["relevant"]) for e in examples]))

    def counts(self, batch: PairBatch, progress: Progress) -> Counts:
        """Pairs."""
        return {"relevance": float(len(batch.relevant))}

    def build(self) -> CrossEncoder:
        """The encoder and a new head."""
        encoder = self.encoder()
        self.check_length(encoder, self.recipe.model.length, "model.length")
        return CrossEncoder(encoder, self.recipe.model)

    def forward(self, model: nn.Module, batch: PairBatch, progress: Progress) -> Output:
        """The loss summed over pairs."""
        logits = model(batch.ids, batch.mask)
        return Output({"relevance": relevance_loss(logits, batch.relevant, self.recipe.loss.objective)})

    def predictor(self, model: nn.Module, options: Any = None) -> Ranker:
        """The model as it answers; its options are those of the stage `contexts`."""
        assert isinstance(model, CrossEncoder)
        return Ranker(self, model)


class Ranker(PairRanker[PairWindow]):
    """A cross-encoder that was trained here, as it answers."""

    def __init__(self, task: RankerTask, model: CrossEncoder) -> None:
        super().__init__(str(task.checkpoint or "ranker"), tokens_per_batch_of(model))
        self.task = task
        self._model = model.eval()

    def subwords(self, text: str) -> list[int]:
        """Those of a sentence or of a context."""
        return self.task.tokenizer(text)[0]

    def pair(self, sentence: Sequence[int], context: Sequence[int]) -> PairWindow:
        """As `RankerTask.pair`."""
        return self.task.pair(sentence, context)

    def sentence_vectors(self, texts: Sequence[str]) -> np.ndarray:
        """[N, H] of the ranker's encoder, by which the method `dense` finds candidates."""
        return sentence_vectors(self._model.text_encoder, self.task.tokenizer, texts)

    def length_of(self, window: PairWindow) -> int:
        """Sub-words of the pair, special tokens included."""
        return len(window.ids) + SPECIAL_TOKENS

    def scores(self, windows: Sequence[PairWindow]) -> Tensor:
        """The score [B] of each pair, in float64: in float32 all from a log odds of 17 on are 1."""
        return self.log_odds(windows).double().sigmoid()

    @torch.inference_mode()
    def log_odds(self, windows: Sequence[PairWindow]) -> Tensor:
        """As `scores`, before the logistic function, which is 1 from about 17 on: [B] float32.

        Raises:
            CheckpointError: one that is no number.
        """
        device = next(self._model.parameters()).device
        ids, mask = self.task.padded([window.ids for window in windows])
        return self.checked(self._model(ids.to(device), mask.to(device)).float())
