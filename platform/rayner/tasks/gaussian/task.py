"""Gaussian contrastive pre-training of papers/004 as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rayner.config.gaussian import GaussianRecipe
from rayner.data.batches import TOKENS_PER_BATCH, forwards
from rayner.data.schema import Document
from rayner.losses.gaussian import Gaussians, gaussian_contrast
from rayner.losses.label_pairs import label_keys, label_pairs
from rayner.models.encoder import Tokenizer
from rayner.models.gaussian import GaussianEncoder
from rayner.tasks.base import Output, Parts, Progress
from rayner.tasks.gaussian.neighbours import Neighbours, Support, group_of
from rayner.tasks.sharing import shares
from rayner.tasks.tags import TagBatch, TagTask


class GaussianTask(TagTask[GaussianRecipe]):
    """Learns an encoder in which the Gaussians of words with equal labels lie close together."""

    weights: Mapping[str, float] = {"contrast": 1.0}

    def __init__(self, recipe: GaussianRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        self.support: Support | None = None
        """The neighbours that answers are taken from; None without a development set."""
        if recipe.loss.positives == "types":
            self.contrasted = ["O", *(f"I-{name}" for name in self.names)]
            self._contrasted_of = torch.arange(len(self.labels)).add(1) // 2
            self._type_of = (torch.arange(len(self.contrasted)) - 1).clamp_min(0)
        else:
            self.contrasted = self.labels
            self._contrasted_of = torch.arange(len(self.labels))
            self._type_of = (torch.arange(len(self.labels)) - 1).clamp_min(0) // 2

    def build(self) -> GaussianEncoder:
        """The encoder and new heads."""
        encoder = self.encoder()
        self.check_windows(encoder)
        return GaussianEncoder(encoder, self.recipe.model.embedding_size, self.recipe.model.dropout)

    def forward(self, model: nn.Module, batch: TagBatch, progress: Progress) -> Output:
        """The Gaussians of the words whose label is known, each with its label and with the types that its
        document was annotated for."""
        labels = self._contrasted_of.to(batch.labels.device)[batch.labels]
        known = ~batch.unknown[:, 1 :: len(self.prefixes)]
        own_type = known.gather(1, self._type_of.to(labels.device)[labels][:, None])[:, 0]
        taught = torch.where(labels > 0, own_type, known.any(1))
        found = model(batch.ids, batch.mask, batch.word_start)
        return Output({}, found.rows()[taught], label_keys(labels[taught], known[taught]))

    def contrast(
        self, anchors: Tensor, candidates: Tensor, keys: Tensor, own: Tensor, progress: Progress
    ) -> Parts:
        """Equation 5, over the words of the whole step; those that have no other of their label to be drawn
        to do not count."""
        if not len(candidates):
            return {"contrast": (candidates.sum(), keys.new_zeros(()))}
        if self.recipe.loss.outside == "negatives":
            inside = keys[own, 0] > 0
            anchors, own = anchors[inside], own[inside]
        found = label_pairs(keys, own, self._type_of)
        return {"contrast": gaussian_contrast(Gaussians.of(anchors), Gaussians.of(candidates), found)}

    def fit(self, model: nn.Module, dev: Sequence[Document]) -> None:
        """Take some documents of dev, chosen by the seed, as the neighbours that answers are taken from."""
        self.support = self._support(model, dev)

    def predictor(self, model: nn.Module, options: Any = None) -> Neighbours | None:
        """Labels of nearest neighbours; None where there was no development set to take them from."""
        return None if self.support is None else Neighbours(self, model, self.support)

    def save(self, model: nn.Module, folder: Path) -> None:
        """Weights, encoder configuration, tokenizer, and the neighbours where there are any."""
        super().save(model, folder)
        if self.support is not None:
            self.support.save(folder)

    def load(self, folder: Path) -> nn.Module:
        """The model that `save` wrote; its neighbours become this task's."""
        model = super().load(folder)
        self.support = Support.load(folder)
        return model

    def _support(self, model: nn.Module, dev: Sequence[Document]) -> Support | None:
        rows: list[dict[str, Any]] = []
        groups: list[int] = []
        words = 0
        for number in np.random.default_rng(self.recipe.seed).permutation(len(dev)):
            for row in self.examples([dev[number]]):
                rows.append(row)
                groups.append(group_of(dev[number]))
                words += len(row["labels"])
            if words >= self.recipe.support_words:
                break
        lengths = np.array([row["length"] for row in rows])
        batches = list(forwards(np.arange(len(rows)), lengths, TOKENS_PER_BATCH))

        def encoded(own: Sequence[np.ndarray]) -> list[Support]:
            return [self._support_of([rows[i] for i in b], [groups[i] for i in b], model) for b in own]

        found = shares(encoded, batches)
        if not batches:
            return None
        parts = [found[number % len(found)][number // len(found)] for number in range(len(batches))]
        return Support(
            *(torch.cat(column)[: self.recipe.support_words] for column in zip(*parts, strict=True))
        )

    def _support_of(
        self, rows: Sequence[Mapping[str, Any]], groups: Sequence[int], model: nn.Module
    ) -> Support:
        device = next(model.parameters()).device
        batch = self.collate(rows, [])
        with torch.no_grad():
            found = model(*(part.to(device) for part in (batch.ids, batch.mask, batch.word_start)))
        of_words = np.repeat(groups, [len(row["labels"]) for row in rows])
        labels = self._contrasted_of[batch.labels]
        return Support(found.rows().float().cpu(), labels, torch.from_numpy(of_words))
