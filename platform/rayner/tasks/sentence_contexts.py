"""Which other sentences of its document each sentence is read with (papers/001, section 4).

The stage `contexts` of a pipeline, and what tasks over documents do whose recipe has a `context`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from rayner.config import ContextSettings, RankerRecipe
from rayner.data.schema import Context, Document
from rayner.data.sentences import sentences_of
from rayner.errors import CheckpointError, storage_error
from rayner.retrieval.contexts import Candidate, context_methods, find_contexts
from rayner.retrieval.document_sentences import DocumentSentences
from rayner.tasks.base import Predictor
from rayner.tasks.checkpoint_files import MANIFEST, read_known_recipe, sha256_of
from rayner.tasks.encoder_task import load_trained
from rayner.tasks.predict import predict
from rayner.tasks.ranker import RankerTask

_RANKERS = {"ranker": RankerRecipe}
"""The tasks whose checkpoints rank contexts."""
_REMEMBERED = 256
"""Documents whose contexts a ranker chose last: a development set is read again in each evaluation."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The sentences of a document, and those that may be contexts of each."""

    document: Document
    sentences: DocumentSentences
    of_sentence: Sequence[Sequence[Candidate]]

    def texts_of(self, sentence: int, candidate: Candidate) -> tuple[int, int]:
        """Numbers of the two texts: pairs of the same texts have the same score."""
        text_of = self.sentences.text_of
        return int(text_of[sentence]), int(text_of[candidate.sentence])


class CandidatePair(NamedTuple):
    """A pair of texts of a document as the ranker reads it."""

    candidates: Candidates
    texts: tuple[int, int]
    window: Any


class ContextStage:
    """Gives each sentence of a document its contexts; a document that has some keeps them.

    Args:
        settings: which; `ranker` is not read.
        ranker: scores the pairs; None takes the best of each method in turn.
    """

    whole = True
    names: Sequence[str] = ()

    def __init__(self, settings: ContextSettings, ranker: Any = None) -> None:
        self._settings = settings
        self._ranker = ranker
        self._methods = context_methods(settings.methods, seed=settings.seed)
        self.forward_cost = 0 if ranker is None else ranker.forward_cost
        self.tokens_per_batch = 1 if ranker is None else ranker.tokens_per_batch

    def prepare(self, item: Document) -> list[CandidatePair]:
        """All pairs of a sentence and a candidate, those of the same texts once; none without a ranker."""
        if self._ranker is None or item.sentence_contexts is not None:
            return []
        found = self.candidates(item)
        pairs = {
            found.texts_of(sentence, candidate): None
            for sentence, candidates in enumerate(found.of_sentence)
            for candidate in candidates
        }
        task, texts, first = self._ranker.task, found.sentences.texts, found.sentences.first
        ids = {text: task.tokenizer(texts[first[text]])[0] for text in set(chain.from_iterable(pairs))}
        return [CandidatePair(found, (one, other), task.pair(ids[one], ids[other])) for one, other in pairs]

    def length_of(self, window: CandidatePair) -> int:
        """Sub-words of the pair, special tokens included."""
        return self._ranker.length_of(window.window)

    def forward(self, windows: Sequence[CandidatePair]) -> list[float]:
        """The score of each pair."""
        return self._ranker.forward([window.window for window in windows])

    def finish(self, item: Document, windows: Sequence[CandidatePair], scores: Sequence[float]) -> Document:
        """The document with its sentences, and the contexts of each in the order of the document."""
        if item.sentence_contexts is not None:
            return item
        found = windows[0].candidates if windows else self.candidates(item)
        score_of = dict(zip((window.texts for window in windows), scores, strict=True))
        contexts = tuple(
            self._chosen(found, sentence, candidates, score_of)
            for sentence, candidates in enumerate(found.of_sentence)
        )
        return replace(found.document, sentence_contexts=contexts)

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """Nothing: nobody says which contexts are right."""
        return {}

    def candidates(self, document: Document) -> Candidates:
        """The sentences of a document, and what the methods propose for each."""
        spans = sentences_of(document)
        sentences = DocumentSentences([document.text[start:end] for start, end in spans])
        count = self._settings.candidates or self._settings.count
        found = find_contexts(sentences, self._methods, count) if spans else []
        return Candidates(replace(document, sentences=tuple(spans)), sentences, found)

    def _chosen(
        self,
        found: Candidates,
        sentence: int,
        candidates: Sequence[Candidate],
        score_of: Mapping[tuple[int, int], float],
    ) -> tuple[Context, ...]:
        count = self._settings.count
        if self._ranker is None:
            taken = in_turn(candidates, count)
            # The order of choice is what counts where not all have room.
            scored = {one.sentence: 1 / place for place, one in enumerate(taken, 1)}
        else:
            scores = [score_of[found.texts_of(sentence, one)] for one in candidates]
            ordered = sorted(range(len(scores)), key=lambda place: -scores[place])
            places = [place for place in ordered if scores[place] > self._settings.minimum]
            scored = {candidates[place].sentence: scores[place] for place in places[:count]}
        texts = found.sentences.texts
        return tuple(
            Context(texts[place], score, before=place < sentence) for place, score in sorted(scored.items())
        )


class SentenceContexts:
    """The contexts of a task's recipe, by which its documents are read in training and in all answers alike.

    It pickles; what it loads is loaded where it is used.

    Args:
        ranker: the checkpoint of a ranker, or None.
    """

    def __init__(self, settings: ContextSettings, ranker: Path | None) -> None:
        self._settings = settings
        self.ranker = ranker

    def __reduce__(self) -> Any:
        return SentenceContexts, (self._settings, self.ranker)

    def of(self, document: Document) -> Document:
        """The document with contexts of each sentence, its own where it has some.

        Raises:
            CheckpointError: the ranker is none, is damaged, or gives no numbers.
        """
        if document.sentence_contexts is not None:
            return document
        bare = replace(document, mentions=())
        found = self._find(bare) if self.ranker is None else self._remembered(bare)
        return replace(found, mentions=document.mentions)

    def key(self) -> Any:
        """What tells these contexts from any other."""
        return {
            **self._settings.model_dump(mode="json", exclude={"ranker"}),
            "ranker": None if self.ranker is None else sha256_of(self.ranker / MANIFEST),
        }

    @cached_property
    def _stage(self) -> ContextStage:
        ranker = None
        if self.ranker is not None:
            ranker = _load_ranker(self.ranker, sha256_of(self.ranker / MANIFEST))
        return ContextStage(self._settings, ranker)

    @cached_property
    def _remembered(self) -> Any:
        return lru_cache(_REMEMBERED)(self._find)

    def _find(self, document: Document) -> Document:
        return next(predict(self._stage, [document]))


def check_ranker(folder: Path) -> None:
    """Raises:
    CheckpointError: the folder is no checkpoint of a ranker.
    StorageError: it cannot be read now.
    """
    try:
        task = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["task"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if failure := storage_error(str(folder / MANIFEST), "cannot be read", error):
            raise failure from error
        what, hint = "is no checkpoint of a ranker", "name a folder such as RUN/best"
        raise CheckpointError(str(folder), what, hint) from None
    if task not in _RANKERS:
        raise CheckpointError(str(folder), f"is of a {task}, which ranks no contexts", "name a ranker")


def in_turn(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """Up to `count` candidates: the best of each method, then the second of each, and so on."""
    turns: dict[str, int] = {}
    ordered = []
    for candidate in candidates:
        turn = turns[candidate.method] = turns.get(candidate.method, -1) + 1
        ordered.append((turn, candidate))
    return [candidate for _, candidate in sorted(ordered, key=lambda pair: pair[0])[:count]]


@lru_cache(2)
def _load_ranker(folder: Path, digest: str) -> Predictor[Any, Any, Any, Any]:
    check_ranker(folder)
    task, model = load_trained(folder, read_known_recipe(folder, _RANKERS), RankerTask)
    predictor = task.predictor(model)
    assert predictor is not None
    return predictor
