"""A recognizer and a standardizer together: from texts to mentions of entities."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rayner.data.batches import COST_OF_A_FORWARD
from rayner.data.mention_strings import MentionString, ids_of
from rayner.data.schema import Document, Mention
from rayner.metrics.linked_spans import score_linked_spans
from rayner.tasks.answers import Answer, finite
from rayner.tasks.base import Predictor
from rayner.tasks.predict import predict
from rayner.tasks.standardize import Standardizer


@dataclass(frozen=True, slots=True)
class LinkedWindow:
    """A window of the recognizer's, and its document."""

    document: Document
    window: Any


@dataclass(frozen=True, slots=True)
class LinkedScores:
    """What the recognizer says of a window, and the answers to the mentions that it sees there, by string."""

    scores: Any
    answers: dict[str, Answer]


class Linker:
    """Finds mentions and names their entities, as a predictor over documents.

    The mentions of all windows of a batch are encoded and searched together, each distinct one once.

    Args:
        recognizer: any predictor from documents to documents with mentions.
        standardizer: what says which entity a mention is.
        types: those of the recognizer's types that are in the knowledge base; None for all. Mentions of other
            types are kept without an entity.
    """

    forward_cost = 4 * COST_OF_A_FORWARD

    def __init__(
        self,
        recognizer: Predictor[Document, Any, Any, Document],
        standardizer: Standardizer,
        types: Collection[str] | None = None,
    ) -> None:
        self._recognizer = recognizer
        self._standardizer = standardizer
        self._types = types

    def prepare(self, item: Document) -> list[LinkedWindow]:
        """The recognizer's windows."""
        return [LinkedWindow(item, window) for window in self._recognizer.prepare(item)]

    def length_of(self, window: LinkedWindow) -> int:
        """Sub-words of the window."""
        return self._recognizer.length_of(window.window)

    def forward(self, windows: Sequence[LinkedWindow]) -> list[LinkedScores]:
        """What the recognizer says of each window, and the standardizer of the mentions there."""
        scores = self._recognizer.forward([w.window for w in windows])
        texts = [
            self._texts(self._recognizer.finish(w.document, [w.window], [score]))
            for w, score in zip(windows, scores, strict=True)
        ]
        answers = self._answers(text for of_window in texts for text in of_window)
        return [
            LinkedScores(score, {text: answers[text] for text in of_window})
            for score, of_window in zip(scores, texts, strict=True)
        ]

    def finish(
        self, item: Document, windows: Sequence[LinkedWindow], scores: Sequence[LinkedScores]
    ) -> Document:
        """The document with mentions, their entities, candidates, margins and probabilities."""
        document = self._recognizer.finish(item, [w.window for w in windows], [s.scores for s in scores])
        answers = {text: answer for s in scores for text, answer in s.answers.items()}
        # What overlaps in one window may be decided otherwise when all windows are seen.
        answers |= self._answers(text for text in self._texts(document) if text not in answers)
        return replace(
            document, mentions=tuple(self._linked(m, document, answers) for m in document.mentions)
        )

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """The recognizer's metrics, and `linked_precision, linked_recall, linked_f1`.

        Ids of gold are understood as in training; of several, any is right.
        """
        found = {(d.document_id, m.start, m.end): m.entity_id for d in predicted for m in d.mentions}
        linked = []
        for d in gold:
            answers = [found.get((d.document_id, m.start, m.end)) for m in d.mentions]
            understood = map(self._understood, d.mentions, answers)
            linked.append(replace(d, mentions=tuple(understood)))
        scores = score_linked_spans(linked, predicted, self._types)
        return {**self._recognizer.evaluate(predicted, gold), **scores}

    def _understood(self, mention: Mention, answer: str | None) -> Mention:
        """A gold mention with an id of the index: of several, the one that was answered."""
        known = self._standardizer.entity_of
        ids = [known(id_) or id_ for id_ in ids_of(mention.entity_id or "", known)]
        return replace(mention, entity_id=answer if answer in ids else next(iter(ids), None))

    def _links(self, mention: Mention) -> bool:
        return self._types is None or mention.type in self._types

    def _texts(self, document: Document) -> list[str]:
        return [document.text[m.start : m.end] for m in document.mentions if self._links(m)]

    def _answers(self, texts: Iterable[str]) -> dict[str, Answer]:
        distinct: list[MentionString | str] = list(dict.fromkeys(texts))
        return {answer.text: answer for answer in predict(self._standardizer, distinct)}

    def _linked(self, mention: Mention, document: Document, answers: dict[str, Answer]) -> Mention:
        if not self._links(mention):
            return mention
        answer = answers[document.text[mention.start : mention.end]]
        candidates = tuple((found.entity_id, found.score) for found in answer.candidates)
        return replace(
            mention,
            entity_id=answer.entity_id,
            candidates=candidates,
            margin=finite(answer.margin),
            probability=answer.probability,
        )
