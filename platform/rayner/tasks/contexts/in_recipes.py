"""The contexts that a task's recipe asks for (papers/001): found, chosen and kept with its checkpoint."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors.torch import save_model

from rayner.config import ContextSettings
from rayner.config.base import Precision
from rayner.config.recipe_files import corpus_paths
from rayner.data.schema import Document
from rayner.errors import RecipeError
from rayner.files.run_checkpoints import checkpoint_of
from rayner.models.encoder import Encoder, load_encoder, load_tokenizer
from rayner.models.sources import WEIGHTS, weights_digest
from rayner.retrieval.nouns import noun_tagger
from rayner.tasks.contexts.rankers import (
    RankerPlace,
    check_ranker,
    digest_of_ranker,
    load_ranker,
    place_of_ranker,
    save_ranker,
)
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.encoder_task import default_device
from rayner.tasks.predict import predict
from rayner.tasks.sentence_vectors import sentence_vectors

RANKER = "ranker"
"""The folder of a checkpoint in which that of its context ranker lies."""
RETRIEVER = "retriever"
"""The folder of a checkpoint with the encoder by which the method `dense` finds contexts."""
_REMEMBERED = 1 << 24
"""Characters of the documents, with their contexts, for which a model found some last: a development set is
read again in each evaluation."""


class SentenceContexts:
    """The contexts of a task's recipe, by which its documents are read in training and in all answers alike.

    It pickles; what it loads is loaded where it is used.

    Args:
        ranker: that which chooses, or None.
        encoder: the name or the folder of that of the method `dense`: the task's, as it was before training,
            so that contexts are the same in training and in answers.
        precision: what the ranker computes in.
        device: where they are loaded to; by default a GPU where there is one.
    """

    def __init__(
        self,
        settings: ContextSettings,
        ranker: RankerPlace | None,
        encoder: str,
        precision: Precision = "float32",
        device: str | torch.device | None = None,
    ) -> None:
        self._settings = settings
        self._precision: Precision = precision
        self._device = device
        self.ranker, self._encoder = ranker, encoder
        self._last: OrderedDict[Document, tuple[Document, int]] = OrderedDict()
        self._characters = 0
        self._lock = Lock()

    def __reduce__(self) -> Any:
        return SentenceContexts, (self._settings, self.ranker, self._encoder, self._precision, self._device)

    def of(self, document: Document) -> Document:
        """The document with contexts of each sentence, its own where it has some.

        Raises:
            CheckpointError: the ranker is none, is damaged, or gives no numbers.
        """
        if document.sentence_contexts is not None:
            return document
        bare = replace(document, mentions=())
        found = self._remembered(bare) if self.ask_model else self._find(bare)
        return replace(found, mentions=document.mentions)

    def key(self) -> Any:
        """What tells these contexts from any other."""
        nouns = self._settings.nouns
        return {
            **self._settings.model_dump(mode="json", exclude={"ranker"}),
            "ranker": None if self.ranker is None else digest_of_ranker(self.ranker),
            "nouns": noun_tagger(nouns, where="context.nouns")[0] if self._settings.reads_nouns else nouns,
            "encoder": weights_digest(self._encoder) if self._is_dense else None,
        }

    def save(self, folder: Path) -> None:
        """Write the ranker and the encoder of `dense` into a checkpoint: it needs no other."""
        if self.ranker is not None:
            save_ranker(self.ranker, folder / RANKER)
        if self._is_dense:
            encoder = _load_encoder(self._encoder)
            encoder.save(folder / RETRIEVER)
            save_model(encoder.model, str(folder / RETRIEVER / WEIGHTS))
            load_tokenizer(self._encoder).save(folder / RETRIEVER)

    @property
    def ask_model(self) -> bool:
        """Whether a ranker or an encoder chooses."""
        return self.ranker is not None or self._is_dense

    @property
    def _is_dense(self) -> bool:
        return "dense" in self._settings.methods

    @cached_property
    def _stage(self) -> ContextStage:
        ranker = None if self.ranker is None else load_ranker(self.ranker, self._device, self._precision)
        encode = None
        if self._is_dense:
            encoder = _load_encoder(self._encoder).to(self._device or default_device())
            encode = partial(sentence_vectors, encoder, load_tokenizer(self._encoder))
        return ContextStage(self._settings, ranker, encode)

    def _remembered(self, document: Document) -> Document:
        with self._lock:
            if document in self._last:
                self._last.move_to_end(document)
                return self._last[document][0]
        found = self._find(document)
        size = len(document.text)
        size += sum(len(context.text) for of_one in found.sentence_contexts or () for context in of_one)
        with self._lock:
            if document not in self._last:
                self._last[document] = found, size
                self._characters += size
            while self._characters > _REMEMBERED:
                self._characters -= self._last.popitem(last=False)[1][1]
        return found

    def _find(self, document: Document) -> Document:
        return next(predict(self._stage, [document]))


def contexts_of(
    settings: ContextSettings | None,
    encoder: str,
    checkpoint: Path | None,
    precision: Precision = "float32",
    device: str | torch.device | None = None,
) -> SentenceContexts | None:
    """The contexts that sentences are read with; None where the recipe asks for none.

    Args:
        encoder: that of the recipe.
        checkpoint: the folder that holds the ranker and the encoder; None takes those that are named.
        precision: what the ranker computes in.
        device: where it and that encoder are loaded to; by default a GPU where there is one.

    Raises:
        RecipeError: the ranker's folder does not exist.
        InputError: as `check_ranker`.
    """
    if settings is None:
        return None
    if checkpoint is not None and "dense" in settings.methods:
        encoder = str(checkpoint / RETRIEVER)
    ranker: RankerPlace | None = None
    if settings.ranker is not None:
        ranker = _named(settings.ranker) if checkpoint is None else checkpoint / RANKER
        check_ranker(ranker, "context.ranker")
    return SentenceContexts(settings, ranker, encoder, precision, device)


def _named(ranker: str) -> RankerPlace:
    try:
        (path,) = corpus_paths([ranker], "context.ranker")
    except RecipeError:
        if isinstance(place := place_of_ranker(ranker, Path.cwd(), "context.ranker"), str):
            return place
        raise
    return checkpoint_of(path.absolute())


def _load_encoder(name: str) -> Encoder:
    # An untrained one is the same wherever it is made.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return load_encoder(name).eval()
