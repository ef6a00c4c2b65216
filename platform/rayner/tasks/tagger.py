"""Token classification: a label for each word from a linear head, the baseline of the recognizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from rayner.config import TaggerRecipe
from rayner.losses.tagging import tagging
from rayner.models.encoder import Tokenizer
from rayner.models.tagger import Tagger
from rayner.tasks.base import Counts, Output, Progress
from rayner.tasks.tags import TagBatch, TagPredictor, TagTask


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
        self.check_windows(encoder)
        return Tagger(encoder, len(self.labels), self.recipe.model.dropout)

    def forward(self, model: nn.Module, batch: TagBatch, progress: Progress) -> Output:
        """The sum over words of the cross-entropy, by their weights."""
        logits = model(batch.ids, batch.mask)[batch.word_start]
        return Output({"tag": tagging(logits, batch.labels, batch.unknown, batch.weights)})

    def predictor(self, model: nn.Module, options: Any = None) -> TagPredictor:
        """The model as it answers; a tagger has no options."""
        return TagPredictor(self, model, decoding=self.recipe.decoding)
