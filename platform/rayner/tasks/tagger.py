"""Token classification: a label for each word from a linear head, the baseline of the recognizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rayner.config import TaggerRecipe
from rayner.data.batches import COST_OF_A_FORWARD, TOKENS_PER_BATCH
from rayner.data.readers.tags import spans_of
from rayner.data.schema import Document, Mention
from rayner.losses.tagging import tagging
from rayner.metrics.spans import score_spans
from rayner.models.encoder import Tokenizer
from rayner.models.tagger import Tagger
from rayner.tasks.base import Counts, Output, Progress, Seed, Size
from rayner.tasks.document_task import DocumentTask, bool_rows
from rayner.tasks.windows import Gold, TextWindow, pad

OUTSIDE = 0
"""The label `O`."""


@dataclass(frozen=True, slots=True)
class TagBatch:
    """Windows and the labels of their words.

    Attributes:
        ids, mask: [B, L] sub-words with special tokens.
        word_start: [B, L] the N positions that stand for a word.
        labels: [N] labels of the words, row by row.
        unknown: [N, C] labels of types that the word's document was not annotated for.
    """

    ids: Tensor
    mask: Tensor
    word_start: Tensor
    labels: Tensor
    unknown: Tensor


class TaggerTask(DocumentTask[TaggerRecipe]):
    """Learns a label for the first sub-word of each word. Of nested mentions it learns the outermost."""

    weights: Mapping[str, float] = {"tag": 1.0}

    def __init__(self, recipe: TaggerRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        self.prefixes = "BI" if recipe.model.scheme == "BIO" else "BIES"
        self.labels = ["O", *(f"{prefix}-{name}" for name in self.names for prefix in self.prefixes)]

    def example_settings(self) -> Mapping[str, Any]:
        """The scheme, too: the labels of words are numbers of its tags."""
        return {**super().example_settings(), "scheme": "".join(self.prefixes)}

    def examples(self, items: Iterable[Document]) -> Iterator[dict[str, Any]]:
        """One row a window; `labels` holds the label of each word that starts in it."""
        of_word = np.zeros(0, dtype=np.int32)
        for row, window, gold in self.rows(items):
            if window.index == 0:
                flat, nested = _outermost(gold, len(window.subwords))
                row["rejects"] = [
                    *row["rejects"],
                    *(self._nested(row["document_id"], window, g) for g in nested),
                ]
                of_word = self._labels_of_words(flat, window)
            row["labels"] = of_word[window.words]
            yield row

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> TagBatch:
        """Rows as tensors; positions move by one for [CLS]."""
        ids, mask = self.padded([np.asarray(e["ids"]) for e in examples])
        width = ids.shape[1]
        known = np.stack(bool_rows([e["known"] for e in examples]))
        words = [len(e["labels"]) for e in examples]
        of_label = np.concatenate(
            [np.zeros((len(known), 1), bool), ~known.repeat(len(self.prefixes), axis=1)], axis=1
        )
        return TagBatch(
            ids=ids,
            mask=mask,
            word_start=torch.from_numpy(pad(bool_rows([e["first"] for e in examples]), width, False, 1)),
            labels=torch.from_numpy(
                np.concatenate([np.asarray(e["labels"], dtype=np.int64) for e in examples])
            ),
            unknown=torch.from_numpy(of_label.repeat(words, axis=0)),
        )

    def counts(self, batch: TagBatch, progress: Progress) -> Counts:
        """Words."""
        return {"tag": float(len(batch.labels))}

    def size_of(self, batch: TagBatch) -> Size:
        """That of its windows."""
        return Size(len(batch.labels), int(batch.mask.sum()), batch.mask.numel())

    def build(self) -> Tagger:
        """The encoder and a new head."""
        encoder = self.encoder()
        self.check_windows(encoder)
        return Tagger(encoder, len(self.labels), self.recipe.model.dropout)

    def forward(self, model: nn.Module, batch: TagBatch, progress: Progress) -> Output:
        """The sum over words of the cross-entropy."""
        logits = model(batch.ids, batch.mask)[batch.word_start]
        return Output({"tag": tagging(logits, batch.labels, batch.unknown)})

    def predictor(self, model: nn.Module, options: Any = None) -> TagPredictor:
        """The model as it answers; a tagger has no options."""
        return TagPredictor(self, model)

    def _labels_of_words(self, gold: Sequence[Gold], window: TextWindow) -> np.ndarray:
        labels = np.full(len(window.subwords.words), OUTSIDE, dtype=np.int32)
        for mention in gold:
            first, last = window.subwords.word_of[[mention.first, mention.last]]
            base = 1 + mention.type * len(self.prefixes)
            begin, inside = base, base + 1
            labels[first : last + 1] = inside
            labels[first] = begin
            if self.prefixes == "BIES":
                labels[last] = base + 2 if last > first else base + 3
        return labels

    def _nested(self, document_id: str, window: TextWindow, gold: Gold) -> str:
        words, word_of = window.subwords.words, window.subwords.word_of
        start, end = words[word_of[gold.first]][0], words[word_of[gold.last]][1]
        return f"{document_id}: {self.names[gold.type]} at {start}-{end}: overlaps a longer mention"


class Tags(NamedTuple):
    """The best label of each word of a window, and its probability: [W] each."""

    labels: np.ndarray
    probabilities: np.ndarray


class TagPredictor:
    """A tagger that answers. Broken label sequences are repaired: a mention starts where it must."""

    forward_cost = COST_OF_A_FORWARD
    tokens_per_batch = TOKENS_PER_BATCH
    whole = False

    def __init__(self, task: TaggerTask, model: nn.Module) -> None:
        self._task = task
        self.whole = task.reads_whole_documents
        self._model = model.eval()
        self.names = task.names

    def prepare(self, item: Document) -> list[TextWindow]:
        """The windows of a document."""
        return self._task.windows_of(item)

    def length_of(self, window: TextWindow) -> int:
        """Sub-words of the window, special tokens included."""
        return len(window)

    @torch.inference_mode()
    def forward(self, windows: Sequence[TextWindow]) -> list[Tags]:
        """The best label of each word that starts in a window."""
        device = next(self._model.parameters()).device
        ids, mask = self._task.padded([window.ids for window in windows])
        best = self._model(ids.to(device), mask.to(device)).float().softmax(-1).max(-1)
        probabilities, labels = best.values.cpu().numpy(), best.indices.cpu().numpy()
        tags = []
        for row, window in enumerate(windows):
            positions = 1 + window.word_places
            tags.append(Tags(labels[row, positions], probabilities[row, positions]))
        return tags

    def finish(self, item: Document, windows: Sequence[TextWindow], scores: Sequence[Tags]) -> Document:
        """The document with its mentions, each word labelled by the window that shows most of its context."""
        if not windows:
            return replace(item, mentions=())
        subwords = windows[0].subwords
        labels = np.full(len(subwords.words), OUTSIDE)
        probabilities = np.ones(len(subwords.words))
        most = np.full(len(subwords.words), -1.0)
        for window, tags in zip(windows, scores, strict=True):
            words, shown = window.words, window.shown_around
            better = shown > most[words]
            chosen = words[better]
            labels[chosen], probabilities[chosen] = tags.labels[better], tags.probabilities[better]
            most[chosen] = shown[better]
        scheme = "BIOES" if len(self._task.prefixes) == 4 else "IOB2"
        names = [self._task.labels[label] for label in labels]
        mentions = [
            Mention(
                subwords.words[first][0],
                subwords.words[last - 1][1],
                name,
                score=float(probabilities[first:last].mean()),
            )
            for first, last, name in spans_of(names, scheme, Counter())
        ]
        return replace(item, mentions=tuple(mentions))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """Span metrics over the recipe's types."""
        return score_spans(gold, predicted, self._task.names)


def _outermost(gold: Sequence[Gold], subwords: int) -> tuple[list[Gold], list[Gold]]:
    """Mentions of which no two overlap, the longest first, and the others."""
    kept: list[Gold] = []
    nested: list[Gold] = []
    taken = np.zeros(subwords, dtype=bool)
    for mention in sorted(gold, key=lambda g: (g.first - g.last, g.first)):
        place = slice(mention.first, mention.last + 1)
        if taken[place].any():
            nested.append(mention)
        else:
            kept.append(mention)
            taken[place] = True
    return kept, nested
