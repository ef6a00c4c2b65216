"""The contexts that a task's recipe asks for (papers/001): found, chosen and kept with its checkpoint."""

from __future__ import annotations

import json
import shutil
from collections import OrderedDict
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors.torch import save_model

from rayner.config import ContextSettings, RankerRecipe
from rayner.config.recipe_files import corpus_paths
from rayner.data.schema import Document
from rayner.errors import CheckpointError, storage_error
from rayner.files.fetching import local
from rayner.files.run_checkpoints import checkpoint_of
from rayner.models.encoder import Encoder, load_encoder, load_tokenizer
from rayner.models.sources import WEIGHTS, weights_digest
from rayner.retrieval.nouns import noun_tagger
from rayner.tasks.checkpoint_files import MANIFEST, read_known_recipe, sha256_of
from rayner.tasks.encoder_task import default_device, load_trained
from rayner.tasks.predict import predict
from rayner.tasks.ranker import Ranker, RankerTask
from rayner.tasks.sentence_contexts import ContextStage
from rayner.tasks.sentence_vectors import sentence_vectors

RANKER = "ranker"
"""The folder of a checkpoint in which that of its context ranker lies."""
RETRIEVER = "retriever"
"""The folder of a checkpoint with the encoder by which the method `dense` finds contexts."""
_RANKERS = {"ranker": RankerRecipe}
"""The tasks whose checkpoints rank contexts."""
_REMEMBERED = 1 << 24
"""Characters of the documents, with their contexts, for which a model found some last: a development set is
read again in each evaluation."""


class SentenceContexts:
    """The contexts of a task's recipe, by which its documents are read in training and in all answers alike.

    It pickles; what it loads is loaded where it is used.

    Args:
        ranker: the checkpoint of a ranker, or None.
        encoder: the name or the folder of that of the method `dense`: the task's, as it was before training,
            so that contexts are the same in training and in answers.
    """

    def __init__(self, settings: ContextSettings, ranker: Path | None, encoder: str) -> None:
        self._settings = settings
        self.ranker, self._encoder = ranker, encoder
        self._last: OrderedDict[Document, tuple[Document, int]] = OrderedDict()
        self._characters = 0
        self._lock = Lock()

    def __reduce__(self) -> Any:
        return SentenceContexts, (self._settings, self.ranker, self._encoder)

    def of(self, document: Document) -> Document:
        """The document with contexts of each sentence, its own where it has some.

        Raises:
            CheckpointError: the ranker is none, is damaged, or gives no numbers.
        """
        if document.sentence_contexts is not None:
            return document
        bare = replace(document, mentions=())
        is_cheap = self.ranker is None and not self._is_dense
        found = self._find(bare) if is_cheap else self._remembered(bare)
        return replace(found, mentions=document.mentions)

    def key(self) -> Any:
        """What tells these contexts from any other."""
        return {
            **self._settings.model_dump(mode="json", exclude={"ranker"}),
            "ranker": None if self.ranker is None else sha256_of(self.ranker / MANIFEST),
            "nouns": noun_tagger(self._settings.nouns)[0],
            "encoder": weights_digest(self._encoder) if self._is_dense else None,
        }

    def save(self, folder: Path) -> None:
        """Write the ranker and the encoder of `dense` into a checkpoint: it needs no other."""
        if self.ranker is not None:
            shutil.copytree(self.ranker, folder / RANKER, ignore=shutil.ignore_patterns("evaluation"))
        if self._is_dense:
            encoder = _load_encoder(self._encoder)
            encoder.save(folder / RETRIEVER)
            save_model(encoder.model, str(folder / RETRIEVER / WEIGHTS))
            load_tokenizer(self._encoder).save(folder / RETRIEVER)

    @property
    def _is_dense(self) -> bool:
        return "dense" in self._settings.methods

    @cached_property
    def _stage(self) -> ContextStage:
        ranker = None
        if self.ranker is not None:
            ranker = load_ranker(self.ranker)
        encode = None
        if self._is_dense:
            encoder = _load_encoder(self._encoder).to(default_device())
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
    settings: ContextSettings | None, encoder: str, checkpoint: Path | None
) -> SentenceContexts | None:
    """The contexts that sentences are read with; None where the recipe asks for none.

    Args:
        encoder: that of the recipe.
        checkpoint: the folder that holds the ranker and the encoder; None takes those that are named.

    Raises:
        RecipeError: the ranker's folder does not exist.
        CheckpointError: it is no checkpoint of a ranker.
    """
    if settings is None:
        return None
    if checkpoint is not None and "dense" in settings.methods:
        encoder = str(checkpoint / RETRIEVER)
    folder = None
    if settings.ranker is not None:
        if checkpoint is None:
            named = corpus_paths([settings.ranker], "context.ranker")[0]
            folder = checkpoint_of(named.absolute())
        else:
            folder = checkpoint / RANKER
        check_ranker(folder)
    return SentenceContexts(settings, folder, encoder)


def check_ranker(folder: Path) -> None:
    """Raises:
    CheckpointError: the folder is no checkpoint of a ranker.
    StorageError: it cannot be read now.
    """
    folder = local(folder)
    try:
        task = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["task"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if failure := storage_error(str(folder / MANIFEST), "cannot be read", error):
            raise failure from error
        what, hint = "is no checkpoint of a ranker", "name a folder such as RUN/best"
        raise CheckpointError(str(folder), what, hint) from None
    if task not in _RANKERS:
        raise CheckpointError(str(folder), f"holds a {task}, which scores no pairs", "name a ranker")


def load_ranker(folder: Path, device: str | None = None) -> Ranker:
    """The ranker of a checkpoint folder; one that was asked for lately is not loaded again.

    Args:
        device: by default a GPU where there is one.

    Raises:
        CheckpointError: it is none, or damaged.
    """
    check_ranker(folder)
    return _load_ranker(folder, sha256_of(folder / MANIFEST), device)


@lru_cache(2)
def _load_ranker(folder: Path, digest: str, device: str | None) -> Ranker:
    task, model = load_trained(folder, read_known_recipe(folder, _RANKERS), RankerTask, device)
    predictor = task.predictor(model)
    assert isinstance(predictor, Ranker)
    return predictor


def _load_encoder(name: str) -> Encoder:
    # An untrained one is the same wherever it is made.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return load_encoder(name).eval()
