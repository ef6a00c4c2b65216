"""Token classification: a label for each word from a linear head, the baseline of the recognizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from rayner.config import TaggerRecipe
from rayner.data.batches import TOKENS_PER_BATCH, forwards
from rayner.data.schema import Document
from rayner.losses.crf import crf
from rayner.losses.tagging import tagging
from rayner.metrics.temperature import best_temperature
from rayner.models.encoder import Tokenizer
from rayner.models.tagger import Tagger
from rayner.tasks.base import Counts, Output, Progress
from rayner.tasks.sharing import from_first, shares
from rayner.tasks.tagger.tags import OUTSIDE, TagBatch, TagPredictor, TagTask
from rayner.tasks.uncertainty import OfWords

CALIBRATION_WORDS = 50_000
"""Of dev, by which the temperature is set."""


class TaggerTask(TagTask[TaggerRecipe]):
    """Learns the labels of words by cross-entropy."""

    weights: Mapping[str, float] = {"tag": 1.0}

    def __init__(self, recipe: TaggerRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer, recipe.model.scheme)
        loss = recipe.loss
        self.marks_neighbours = loss.outside == "neighbours"
        of_types = [loss.class_weights.get(name, 1.0) for name in self.names]
        self._of_labels = np.array(
            [loss.outside_weight, *np.repeat(of_types, len(self.prefixes))], np.float32
        )

    def weights_of(self, examples: Sequence[Mapping[str, Any]], labels: np.ndarray) -> np.ndarray:
        """float32 [N] those of the labels; 0 for words outside that are not next to a mention, where only
        the others count (papers/003, appendix A)."""
        weights = self._of_labels[labels]
        if self.marks_neighbours:
            weights = weights * np.concatenate([np.asarray(e["near"], dtype=bool) for e in examples])
        return weights

    def counts(self, batch: TagBatch, progress: Progress) -> Counts:
        """The weights of the words; 1 for each word unless the recipe says otherwise."""
        return {"tag": float(batch.weights.double().sum())}

    def build(self) -> Tagger:
        """The encoder and a new head."""
        encoder = self.encoder()
        self.check_length(encoder, self.recipe.windows.length)
        return Tagger(
            encoder,
            len(self.labels),
            self.recipe.model.dropout,
            crf=self.recipe.decoding == "crf",
            calibrated=self.recipe.calibration == "temperature",
        )

    def forward(self, model: nn.Module, batch: TagBatch, progress: Progress) -> Output:
        """The sum over words of the cross-entropy, by their weights, or that over windows of a CRF."""
        assert isinstance(model, Tagger)
        logits = model(batch.ids, batch.mask)[batch.words]
        if model.between is not None:
            return Output({"tag": crf(logits, batch.sizes, batch.labels, batch.unknown, model.between)})
        return Output({"tag": tagging(logits, batch.labels, batch.unknown, batch.weights)})

    def uncertainty(self, model: nn.Module) -> OfWords:
        """Minus the log-probability of the best label of each word."""
        return self.predictor(model).uncertainties

    def predictor(self, model: nn.Module, options: Any = None) -> TagPredictor:
        """The model as it answers; a tagger has no options."""
        assert isinstance(model, Tagger)
        temperature = 1.0 if model.temperature is None else model.temperature.item()
        return TagPredictor(
            self,
            model,
            decoding="greedy" if self.recipe.decoding == "greedy" else "constrained",
            temperature=temperature,
            between=None if model.between is None else model.between.detach().float().cpu().numpy(),
        )

    def fit(self, model: nn.Module, dev: Sequence[Document]) -> None:
        """The temperature, where the recipe asks for one, by words of some documents of dev."""
        assert isinstance(model, Tagger)
        if model.temperature is not None:
            logits, labels = self._known_words(model, dev)
            model.temperature.fill_(from_first(lambda: best_temperature(logits, labels)))

    def _known_words(self, model: Tagger, dev: Sequence[Document]) -> tuple[np.ndarray, np.ndarray]:
        """The logits [N, C] and the labels [N] of words whose label is known; the same on all workers."""
        rows: list[dict[str, Any]] = []
        words = 0
        drawn = np.random.default_rng(self.recipe.seed).permutation(len(dev))
        # Not a document at a time: a novel is longer than what is asked for.
        for row in self.examples(dev[number] for number in drawn):
            rows.append(row)
            words += len(row["labels"])
            if words >= CALIBRATION_WORDS:
                break
        lengths = np.array([row["length"] for row in rows], dtype=np.int64)
        batches = list(forwards(np.arange(len(rows)), lengths, TOKENS_PER_BATCH))
        device = next(model.parameters()).device

        def known(own: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
            found = []
            for places in own:
                batch = self.collate([rows[place] for place in places], [])
                with torch.no_grad():
                    logits = model(batch.ids.to(device), batch.mask.to(device)).float().cpu()
                kept = (batch.labels > OUTSIDE) | ~batch.unknown.any(1)
                found.append((logits[batch.words][kept].numpy(), batch.labels[kept].numpy()))
            return found

        parts = [part for of_worker in shares(known, batches) for part in of_worker]
        if not parts:
            return np.zeros((0, len(self.labels))), np.zeros(0, dtype=np.int64)
        logits, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
        return logits, labels
