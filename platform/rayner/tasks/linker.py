"""A recognizer and a standardizer together: from texts to mentions of entities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from rayner.data.schema import Document, Mention
from rayner.metrics.linked_spans import score_linked_spans
from rayner.tasks.answers import Answer
from rayner.tasks.base import Predictor
from rayner.tasks.predict import predict
from rayner.tasks.standardize import Standardizer


class Linker:
    """Finds mentions and names their entities, as a predictor over documents.

    Args:
        recognizer: any predictor from documents to documents with mentions.
        standardizer: what says which entity a mention is.
        types: those of the recognizer's types that are in the knowledge base; None for all. Mentions of other
            types are kept without an entity.
    """

    def __init__(
        self,
        recognizer: Predictor[Document, Any, Any, Document],
        standardizer: Standardizer,
        types: Collection[str] | None = None,
    ) -> None:
        self._recognizer = recognizer
        self._standardizer = standardizer
        self._types = types

    def prepare(self, item: Document) -> list[Any]:
        """The recognizer's windows."""
        return self._recognizer.prepare(item)

    def length_of(self, window: Any) -> int:
        """Sub-words of the window."""
        return self._recognizer.length_of(window)

    def forward(self, windows: Sequence[Any]) -> list[Any]:
        """What the recognizer says of each window."""
        return self._recognizer.forward(windows)

    def finish(self, item: Document, windows: Sequence[Any], scores: Sequence[Any]) -> Document:
        """The document with its mentions, not linked yet."""
        return self._recognizer.finish(item, windows, scores)

    def complete(self, answers: Sequence[Document]) -> list[Document]:
        """The documents with entities and candidates; each distinct mention is looked up once."""
        texts = dict.fromkeys(
            document.text[m.start : m.end]
            for document in answers
            for m in document.mentions
            if self._links(m)
        )
        found = dict(zip(texts, predict(self._standardizer, texts), strict=True))
        return [self._linked(document, found) for document in answers]

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """The recognizer's metrics, and `linked_precision, linked_recall, linked_f1`."""
        types = self._types
        return {**self._recognizer.evaluate(predicted, gold), **score_linked_spans(gold, predicted, types)}

    def _links(self, mention: Mention) -> bool:
        return self._types is None or mention.type in self._types

    def _linked(self, document: Document, found: dict[str, Answer]) -> Document:
        mentions = []
        for mention in document.mentions:
            if self._links(mention):
                answer = found[document.text[mention.start : mention.end]]
                candidates = tuple((c.entity_id, c.score) for c in answer.candidates)
                mention = replace(mention, entity_id=answer.entity_id, candidates=candidates)
            mentions.append(mention)
        return replace(document, mentions=tuple(mentions))
