"""What tasks over annotated documents share: reading, windows, and the parameters of encoder and heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from rayner.config import DocumentRecipe
from rayner.data import batches
from rayner.data.plans import Plan
from rayner.data.schema import Document
from rayner.errors import CorpusError, RecipeError
from rayner.metrics.spans import score_spans
from rayner.models.encoder import Encoder, Tokenizer, load_tokenizer
from rayner.tasks.corpora import require_mentions, split_documents
from rayner.tasks.documents import (
    SPECIAL_TOKENS,
    Gold,
    TextWindow,
    gold_of,
    known_types,
    text_windows,
    with_special_tokens,
)
from rayner.tasks.weights import save_weights


class DocumentTask:
    """The parts of `TrainTask` that do not depend on the model.

    Args:
        recipe: the run.
        tokenizer: that of a checkpoint; by default the encoder's.
    """

    max_width: int | None = None
    """Sub-words of the longest mention that the model can represent; None for any."""
    metric = "f1"

    def __init__(self, recipe: DocumentRecipe, tokenizer: Tokenizer | None = None) -> None:
        self._recipe = recipe
        self._tokenizer = tokenizer
        self.names = [t.name for t in recipe.types]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The encoder's tokenizer."""
        return self._tokenizer or load_tokenizer(self._recipe.encoder)

    def items(self, split: Literal["train", "dev"]) -> Iterable[Document]:
        """The documents of a split; none of `dev` where the recipe has no such split.

        Raises:
            RecipeError: a path that does not exist.
            CorpusError: a corpus without documents, or, to learn from, without a mention of any of the types.
        """
        documents = split_documents(self._recipe.corpus, split)
        if split == "train":
            require_mentions(documents, self.names)
        return documents

    def settings_of_examples(self) -> Mapping[str, Any]:
        """What decides the examples: encoder, windows, type names, width limit."""
        return {
            "task": type(self).__name__,
            "encoder": self._recipe.encoder,
            "windows": self._recipe.windows.model_dump(mode="json"),
            "types": self.names,
            "max_width": self.max_width,
        }

    def length_of(self, example: Mapping[str, Any]) -> int:
        """Sub-words of the window, special tokens included."""
        return len(example["ids"]) + SPECIAL_TOKENS

    def plan(self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int) -> Plan:
        """Windows of about equal length share a step."""
        recipe = self._recipe
        return batches.plan(lengths, groups, recipe.seed, epoch, recipe.training.tokens_per_step)

    def group_of(self, example: Mapping[str, Any]) -> str | None:
        """Windows stand alone: their contrasts stay within a window."""
        return None

    def head_parameters(self, model: nn.Module) -> Iterable[nn.Parameter]:
        """All parameters outside the encoders."""
        return [
            p
            for name, p in model.named_parameters()
            if not name.startswith(("text_encoder.", "type_encoder."))
        ]

    def windows_of(self, document: Document) -> list[TextWindow]:
        """The windows of a document."""
        tokenizer = self.tokenizer
        unknown = tokenizer.pad_id if tokenizer.unk_id is None else tokenizer.unk_id
        return text_windows(document, self._recipe.windows, tokenizer, unknown)

    def rows(
        self, documents: Iterable[Document]
    ) -> Iterator[tuple[dict[str, Any], TextWindow, Sequence[Gold]]]:
        """A row for each window, the window, and all mentions of its document.

        A document's first row has `rejects`: a line for each mention that is left out or moved.

        Raises:
            CorpusError: a document with mentions but without words.
        """
        type_index = {name: index for index, name in enumerate(self.names)}
        for document in documents:
            known = known_types(document, self.names)
            windows = self.windows_of(document)
            if not windows:
                if document.mentions:
                    what = f"{len(document.mentions)} mentions and no word"
                    raise CorpusError(document.document_id, what, "mark what holds a letter, digit or sign")
                continue
            gold, rejects = gold_of(document, windows[0].subwords, type_index, self.max_width)
            for window in windows:
                yield (
                    {
                        "document_id": document.document_id,
                        **window.row,
                        "known": known,
                        "rejects": rejects if window.index == 0 else [],
                    },
                    window,
                    gold,
                )

    def check_windows(self, encoder: Encoder) -> None:
        """Raise RecipeError if windows are longer than the encoder takes."""
        length = self._recipe.windows.length
        if length > encoder.max_length:
            what, cure = f"{length} sub-words do not fit the encoder", f"it takes {encoder.max_length}"
            raise RecipeError("windows.length", what, cure)

    def padded(self, rows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Sub-words with special tokens, padded: ids and mask, [B, longest + 2]."""
        tokenizer = self.tokenizer
        ids = with_special_tokens(rows, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
        lengths = np.array([len(row) + SPECIAL_TOKENS for row in rows])
        return torch.from_numpy(ids), torch.from_numpy(np.arange(ids.shape[1])[None, :] < lengths[:, None])

    def save(self, model: nn.Module, folder: Path) -> None:
        """Weights, encoder configuration and tokenizer."""
        save_weights(model, folder)
        encoder = model.text_encoder
        assert isinstance(encoder, Encoder)
        encoder.save(folder / "encoder")
        self.tokenizer.save(folder / "encoder")

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """Span metrics over the recipe's types."""
        return score_spans(gold, predicted, self.names)


def bool_rows(rows: Sequence[Any]) -> list[np.ndarray]:
    """Columns that came back from Parquet, as boolean arrays."""
    return [np.asarray(row, dtype=bool) for row in rows]
