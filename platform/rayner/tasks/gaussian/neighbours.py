"""Labels of words by their nearest neighbours, which say how well a pre-training tells labels apart."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rayner.data.batches import COST_OF_A_FORWARD, tokens_per_batch_of
from rayner.data.schema import Document, story_of
from rayner.data.string_hashes import number_of
from rayner.errors import CheckpointError
from rayner.losses.gaussian import CandidateGaussians, Gaussians, divergences
from rayner.tasks.checkpoint_files import HINT
from rayner.tasks.document_windows import TextWindow
from rayner.tasks.tagger.tags import TagPredictor, Tags, TagTask

log = logging.getLogger(__name__)
FILE = "support.safetensors"
_AT_ONCE = 1 << 14
"""Neighbours that the words of a batch are held against at a time."""


class Support(NamedTuple):
    """Words whose labels are known.

    `rows` float32 [S, 2 D] are their Gaussians, `labels` int64 [S] their labels, `groups` int64 [S] what
    `group_of` says of their documents, `known` bool [P, T] sets of types that documents were annotated for,
    `sets` int64 [S] of which set the document of each word is.
    """

    rows: Tensor
    labels: Tensor
    groups: Tensor
    known: Tensor
    sets: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Support], most: int | None) -> Support:
        """The words of all parts, or the first `most` of them."""
        before = np.cumsum([0, *(len(part.known) for part in parts)])
        sets = torch.cat([part.sets + int(n) for part, n in zip(parts, before, strict=False)])[:most]
        known, places = torch.cat([part.known for part in parts])[sets].unique(dim=0, return_inverse=True)
        rows, labels, groups = (
            torch.cat(column)[:most] for column in zip(*(part[:3] for part in parts), strict=True)
        )
        return cls(rows, labels, groups, known, places)

    def save(self, folder: Path) -> None:
        """Write it into a checkpoint."""
        save_file({name: part.contiguous() for name, part in self._asdict().items()}, folder / FILE)

    @classmethod
    def load(cls, folder: Path) -> Support | None:
        """What `save` wrote; None where it wrote nothing, or an earlier version did, which the log says.

        Raises:
            CheckpointError: the file is damaged.
        """
        path = folder / FILE
        if not path.exists():
            return None
        try:
            found = load_file(path)
            if found.keys() == {"rows", "labels", "groups"}:
                log.warning(
                    "%s comes from an earlier version, whose neighbours are not read; train anew", folder
                )
                return None
            return cls(**found)
        except (SafetensorError, TypeError) as error:
            raise CheckpointError(str(path), f"cannot be read ({type(error).__name__})", HINT) from None


def group_of(document: Document) -> int:
    """A number for a document's group (book, patient), or for the document."""
    return number_of(story_of(document))


def encoded(task: TagTask[Any], model: nn.Module, windows: Sequence[TextWindow]) -> Gaussians:
    """The Gaussians of the words that start in the windows, one window after another."""
    device = next(model.parameters()).device
    ids, mask = task.padded([window.ids for window in windows])
    rows = np.repeat(np.arange(len(windows)), [len(window.words) for window in windows])
    places = np.concatenate([window.word_positions for window in windows])
    words = tuple(torch.from_numpy(part).to(device) for part in (rows, places))
    return model(ids.to(device), mask.to(device), words)


class GroupedWindow(NamedTuple):
    """A window, and the group of its document."""

    window: TextWindow
    group: int


class Neighbours:
    """Gives each word the label of its nearest neighbour by divergence, never one of its own group.

    A label's probability is its share of exp(-d) over all labels, each with its nearest neighbour. A word
    outside of mentions is held against labels of those types alone that its document was annotated for; where
    there is none for a type, any such word is. Neighbours without the distinction of first words
    (`loss.positives: types`) part no mentions of a type that touch. The uncertainty of a mention is the
    differential entropy of its words' Gaussians: the mean over words and dimensions, in nats.

    Args:
        labels: the names of those that the neighbours have.
        apart: whether words of a document's own group are no neighbours of it.
    """

    forward_cost = COST_OF_A_FORWARD
    whole = False

    def __init__(
        self,
        task: TagTask[Any],
        model: nn.Module,
        labels: Sequence[str],
        support: Support,
        apart: bool = True,
    ) -> None:
        self._task = task
        self._labels = labels
        self._apart = apart
        self.whole = task.reads_whole_documents
        self._model = model.eval()
        self.tokens_per_batch = tokens_per_batch_of(model)
        self._tags = TagPredictor(task, model, labels)
        device = next(model.parameters()).device
        self._support = Support(*(part.to(device) for part in support))
        parts = [Gaussians.of(rows) for rows in self._support.rows.split(_AT_ONCE)]
        # Prepared once they take four times as much memory more, which many would not have.
        self._candidates = [CandidateGaussians.of(part) for part in parts] if len(parts) == 1 else parts
        self.names = task.names
        types = [task.names.index(label.partition("-")[2]) for label in labels[1:]]
        self._type_of = torch.tensor(types, device=device)

    def prepare(self, item: Document) -> list[GroupedWindow]:
        """The windows of a document."""
        group = group_of(item)
        return [GroupedWindow(window, group) for window in self._tags.prepare(item)]

    def length_of(self, window: GroupedWindow) -> int:
        """Sub-words of the window, special tokens included."""
        return self._tags.length_of(window.window)

    @torch.inference_mode()
    def forward(self, windows: Sequence[GroupedWindow]) -> list[Tags]:
        """The label of the nearest neighbour of each word that starts in a window."""
        device = self._support.rows.device
        found = encoded(self._task, self._model, [window for window, _ in windows])
        numbers = [len(window.words) for window, _ in windows]
        groups = torch.tensor([group for _, group in windows], device=device)
        groups = groups.repeat_interleave(torch.tensor(numbers, device=device))
        chances = self._scores(found, groups).softmax(-1).max(-1)
        columns = (chances.indices, chances.values, found.entropies())
        parts = (np.split(column.cpu().numpy(), np.cumsum(numbers)[:-1]) for column in columns)
        return [
            Tags(labels, probabilities, uncertainties=uncertainties)
            for labels, probabilities, uncertainties in zip(*parts, strict=True)
        ]

    def finish(self, item: Document, windows: Sequence[GroupedWindow], scores: Sequence[Tags]) -> Document:
        """The document with its mentions: runs of words with labels of one type."""
        return self._tags.finish(item, [window for window, _ in windows], scores)

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """Span metrics over the recipe's types."""
        return self._tags.evaluate(predicted, gold)

    def _scores(self, words: Gaussians, groups: Tensor) -> Tensor:
        """[N, labels] how much nearer the nearest neighbour of each label is than that outside of mentions, 0
        for the latter; a word without any neighbour is outside."""
        support = self._support
        words = Gaussians(*(part.float() for part in words))
        nearest = words.mean.new_full((len(words.mean), len(self._labels)), torch.inf)
        outside = words.mean.new_full((len(words.mean), len(support.known)), torch.inf)
        columns = (part.split(_AT_ONCE) for part in (support.labels, support.groups, support.sets))
        for candidates, labels, others, sets in zip(self._candidates, *columns, strict=True):
            far = divergences(words, candidates)
            if self._apart:
                far = far.masked_fill(groups[:, None] == others, torch.inf)
            nearest.scatter_reduce_(1, labels.expand_as(far), far, "amin")
            far = far[:, labels == 0]
            outside.scatter_reduce_(1, sets[labels == 0].expand_as(far), far, "amin")
        any_outside = nearest[:, :1]
        own = any_outside.new_full((len(nearest), support.known.shape[1]), torch.inf)
        for known, distance in zip(support.known, outside.T, strict=True):
            own = torch.minimum(own, distance[:, None].masked_fill(~known, torch.inf))
        own = torch.where(own.isinf(), any_outside, own)[:, self._type_of]
        scores = torch.where(own.isinf(), 0.0, own) - nearest[:, 1:]
        is_alone = any_outside.isinf() & ~nearest.isinf().all(1, keepdim=True)
        return torch.cat([torch.zeros_like(any_outside).masked_fill(is_alone, -torch.inf), scores], 1)
