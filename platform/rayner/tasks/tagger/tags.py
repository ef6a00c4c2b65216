"""Labels of words: how tasks learn them from annotated documents, and how mentions follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from rayner.config import DocumentRecipe
from rayner.data.batches import COST_OF_A_FORWARD, tokens_per_batch_of
from rayner.data.readers.tag_schemes import spans_of
from rayner.data.schema import Document, Mention
from rayner.metrics.judged_mentions import score_calibration_error
from rayner.metrics.spans import score_spans
from rayner.models.encoder import Tokenizer
from rayner.tasks.base import Seed, Size
from rayner.tasks.document_task import DocumentTask
from rayner.tasks.document_windows import Gold, TextWindow, pad
from rayner.tasks.tagger.decoding import TagGrammar, log_marginals

R = TypeVar("R", bound=DocumentRecipe)

OUTSIDE = 0
"""The label `O`."""


@dataclass(frozen=True, slots=True)
class TagBatch:
    """Windows and the labels of their words.

    Words are told by their places: a mask would make a GPU say in each step how many there are.

    Attributes:
        ids, mask: [B, L] sub-words with special tokens.
        words: int64 [N] each, the window and the position that stand for a word, row by row.
        sizes: the words of each window.
        labels: [N] labels of the words, row by row.
        unknown: [N, C] labels of types that the word's document was not annotated for; of a word in an
            unknown span, those of all types.
        weights: float32 [N] what each word counts for in a loss that adds up over words.
    """

    ids: Tensor
    mask: Tensor
    words: tuple[Tensor, ...]
    sizes: list[int]
    labels: Tensor
    unknown: Tensor
    weights: Tensor


class TagTask(DocumentTask[R]):
    """Gives the first sub-word of each word a label. Of nested mentions the outermost counts."""

    examples_version = 6
    marks_neighbours = False
    """Whether examples say which words are in a mention or next to one."""
    numbers_words = False
    """Whether examples say which words of their document they hold."""

    def __init__(
        self, recipe: R, tokenizer: Tokenizer | None = None, scheme: Literal["BIO", "BIOES"] = "BIO"
    ) -> None:
        super().__init__(recipe, tokenizer)
        self.prefixes = "BI" if scheme == "BIO" else "BIES"
        self.labels = ["O", *(f"{prefix}-{name}" for name in self.names for prefix in self.prefixes)]

    def example_settings(self) -> Mapping[str, Any]:
        """The scheme, too: the labels of words are numbers of its tags."""
        marked = {"neighbours": True} if self.marks_neighbours else {}
        return {**super().example_settings(), "scheme": "".join(self.prefixes), **marked}

    def examples(self, items: Iterable[Document]) -> Iterator[dict[str, Any]]:
        """One row a window; `labels` holds the label of each word that starts in it, `near` whether the word
        is in a mention or next to one, `words` its number in the document."""
        of_word = np.zeros(0, dtype=np.int32)
        for row, window, gold in self.rows(items):
            if window.index == 0:
                flat, nested = _outermost(gold, len(window.subwords))
                row["rejects"] = [
                    *row["rejects"],
                    *(self._nested(row["document_id"], window, g) for g in nested),
                ]
                of_word = self.labels_of_words(flat, window)
            row["labels"] = of_word[window.words]
            if self.marks_neighbours:
                row["near"] = _near_mentions(of_word)[window.words]
            if self.numbers_words:
                row["words"] = window.words
            yield row

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> TagBatch:
        """Rows as tensors; positions move by one for [CLS]."""
        ids, mask = self.padded([np.asarray(e["ids"]) for e in examples])
        width = ids.shape[1]
        known = self.known_of(examples)
        first = pad([e["first"] for e in examples], width, False, 1)
        sizes = [len(e["labels"]) for e in examples]
        of_label = np.concatenate(
            [np.zeros((len(known), 1), bool), ~known.repeat(len(self.prefixes), axis=1)], axis=1
        )
        of_label = of_label.repeat(sizes, axis=0)
        of_label[np.concatenate([_in_unknown(e) for e in examples]), 1:] = True
        labels = np.concatenate([np.asarray(e["labels"], dtype=np.int64) for e in examples])
        return TagBatch(
            ids=ids,
            mask=mask,
            words=tuple(map(torch.from_numpy, first.nonzero())),
            sizes=sizes,
            labels=torch.from_numpy(labels),
            unknown=torch.from_numpy(of_label),
            weights=torch.from_numpy(self.weights_of(examples, labels)),
        )

    def weights_of(self, examples: Sequence[Mapping[str, Any]], labels: np.ndarray) -> np.ndarray:
        """float32 [N] what each word of the examples counts for; all alike."""
        return np.ones(len(labels), np.float32)

    def size_of(self, batch: TagBatch) -> Size:
        """That of its windows."""
        return Size(len(batch.labels), int(batch.mask.sum()), batch.mask.numel())

    def labels_of_words(self, gold: Sequence[Gold], window: TextWindow) -> np.ndarray:
        """int32 [W] the label of each word of the window's document, whose mentions do not overlap."""
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
    """The best label of each word of a window, and its probability: [W] each.

    `scores` are the log-probabilities of all labels, [W, C], where whole sequences are decoded;
    `uncertainties` [W] are those of the words, where their vectors are distributions.
    """

    labels: np.ndarray
    probabilities: np.ndarray
    scores: np.ndarray | None = None
    uncertainties: np.ndarray | None = None


class TagPredictor:
    """A model that answers with labels of words.

    Args:
        labels: their names, in the order of the model's scores; by default the task's.
        decoding: `greedy` takes the best label of each word and repairs broken sequences: a mention starts
            where it must. `constrained` takes the most probable of the sequences that are not broken.
        between: [C, C] what is added for a label (second) after another (first), as a CRF has learned it;
            only with `constrained`.
        temperature: what scores are divided by before they are probabilities.
    """

    forward_cost = COST_OF_A_FORWARD
    whole = False

    def __init__(
        self,
        task: TagTask[Any],
        model: nn.Module,
        labels: Sequence[str] | None = None,
        decoding: Literal["greedy", "constrained"] = "greedy",
        temperature: float = 1.0,
        between: np.ndarray | None = None,
    ) -> None:
        self._task = task
        self.whole = task.reads_whole_documents
        self._model = model.eval()
        self.tokens_per_batch = tokens_per_batch_of(model)
        self._labels = task.labels if labels is None else labels
        self._grammar = TagGrammar(self._labels) if decoding == "constrained" else None
        self._temperature, self._between = temperature, between
        self.names = task.names

    def prepare(self, item: Document) -> list[TextWindow]:
        """The windows of a document."""
        return self._task.windows_of(item)

    def length_of(self, window: TextWindow) -> int:
        """Sub-words of the window, special tokens included."""
        return len(window)

    @torch.inference_mode()
    def gold_probabilities(
        self, windows: Sequence[TextWindow], gold: Sequence[Sequence[Gold]]
    ) -> list[list[float]]:
        """The probability that each window gives to the labels of its gold mentions, each as one."""
        logs = self._log_probabilities(windows)
        column = {name: place for place, name in enumerate(self._labels)}
        found: list[list[float]] = []
        for window, of_words, mentions in zip(windows, logs, gold, strict=True):
            found.append([])
            word_of, first_word = window.subwords.word_of, int(window.words[0]) if len(window.words) else 0
            for mention in mentions:
                labels = self._task.labels_of_words([mention], window)
                words = range(int(word_of[mention.first]), int(word_of[mention.last]) + 1)
                names = [self._task.labels[labels[word]] for word in words]
                total = sum(
                    of_words[word - first_word, column[name]]
                    for word, name in zip(words, names, strict=True)
                    if 0 <= word - first_word < len(of_words)
                )
                found[-1].append(float(np.exp(total)))
        return found

    @torch.inference_mode()
    def uncertainties(self, windows: Sequence[TextWindow]) -> list[np.ndarray]:
        """[W] of the words that start in each window: minus the log-probability of its best label."""
        return [-logs.max(1) for logs in self._log_probabilities(windows)]

    @torch.inference_mode()
    def forward(self, windows: Sequence[TextWindow]) -> list[Tags]:
        """The best label of each word that starts in a window."""
        logits = self._logits(windows)
        best = logits.softmax(-1).max(-1)
        probabilities, labels = best.values.cpu().numpy(), best.indices.cpu().numpy()
        scores = None if self._grammar is None else logits.log_softmax(-1).cpu().numpy()
        tags = []
        for row, window in enumerate(windows):
            at = row, window.word_positions
            tags.append(Tags(labels[at], probabilities[at], None if scores is None else scores[at]))
        return tags

    def _log_probabilities(self, windows: Sequence[TextWindow]) -> list[np.ndarray]:
        """[W, C] of the labels of the words that start in each window."""
        of_rows = self._logits(windows).log_softmax(-1).cpu().numpy()
        logs = [row[window.word_positions] for row, window in zip(of_rows, windows, strict=True)]
        return logs if self._between is None else [log_marginals(one, self._between) for one in logs]

    def _logits(self, windows: Sequence[TextWindow]) -> Tensor:
        """[B, L, C], divided by the temperature"""
        device = next(self._model.parameters()).device
        ids, mask = self._task.padded([window.ids for window in windows])
        return self._model(ids.to(device), mask.to(device)).float() / self._temperature

    def finish(self, item: Document, windows: Sequence[TextWindow], scores: Sequence[Tags]) -> Document:
        """The document with its mentions, each word labelled by the window that shows most of its context."""
        if not windows:
            return replace(item, mentions=())
        subwords = windows[0].subwords
        labels = np.full(len(subwords.words), OUTSIDE)
        probabilities = np.ones(len(subwords.words))
        logs = np.zeros((len(subwords.words), len(self._labels))) if self._grammar else None
        uncertainties: np.ndarray | None = None
        most = np.full(len(subwords.words), -1.0)
        for window, tags in zip(windows, scores, strict=True):
            words, shown = window.words, window.shown_around
            better = shown > most[words]
            chosen = words[better]
            labels[chosen], probabilities[chosen] = tags.labels[better], tags.probabilities[better]
            if logs is not None and tags.scores is not None:
                logs[chosen] = tags.scores[better]
            if tags.uncertainties is not None:
                uncertainties = np.zeros(len(subwords.words)) if uncertainties is None else uncertainties
                uncertainties[chosen] = tags.uncertainties[better]
            most[chosen] = shown[better]
        if self._grammar is not None and logs is not None:
            labels = self._grammar.best(logs, self._between)
            marginals = logs if self._between is None else log_marginals(logs, self._between)
            probabilities = np.exp(marginals[np.arange(len(labels)), labels])
        scheme = "BIOES" if len(self._task.prefixes) == 4 else "IOB2"
        names = [self._labels[int(label)] for label in labels]
        mentions = [
            Mention(
                subwords.words[first][0],
                subwords.words[last - 1][1],
                name,
                score=float(probabilities[first:last].mean()),
                uncertainty=None if uncertainties is None else float(uncertainties[first:last].mean()),
            )
            for first, last, name in spans_of(names, scheme, Counter())
        ]
        return replace(item, mentions=tuple(mentions))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """Span metrics over the recipe's types, and `calibration_error` of the scores."""
        names = self._task.names
        return {**score_spans(gold, predicted, names), **score_calibration_error(gold, predicted, names)}


def _in_unknown(example: Mapping[str, Any]) -> np.ndarray:
    """Which words of an example are in an unknown span."""
    first = np.asarray(example["first"], dtype=bool)
    inside = np.zeros(len(first), dtype=bool)
    for begin, last in np.asarray(example["unknown"]).reshape(-1, 2):
        inside[begin : last + 1] = True
    return inside[first]


def _near_mentions(labels: np.ndarray) -> np.ndarray:
    """Which words are in a mention, or immediately before or after one."""
    inside = labels != OUTSIDE
    near = inside.copy()
    near[:-1] |= inside[1:]
    near[1:] |= inside[:-1]
    return near


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
