"""The standardizer as a stage: it names the entities of the mentions that a stage before it found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rayner.data.mention_strings import ids_of
from rayner.data.schema import Document, Mention
from rayner.metrics.linked_spans import score_linked_spans
from rayner.retrieval.names import Found
from rayner.tasks.standardizer.predictor import Standardizer


class MentionText(NamedTuple):
    """The text of a mention as it stands in a document, and as the standardizer reads it."""

    text: str
    window: str


class Entities:
    """Names the entities of the mentions of documents.

    Its windows are the distinct strings of a document's mentions; equal strings of a batch are encoded and
    searched once.

    Args:
        standardizer: what says which entity a mention is.
        types: those whose mentions are in the knowledge base; None for all. Mentions of other types are kept
            as they are.
    """

    whole = True

    def __init__(self, standardizer: Standardizer, types: Collection[str] | None = None) -> None:
        self.standardizer = standardizer
        self.forward_cost = standardizer.forward_cost
        self.tokens_per_batch = standardizer.tokens_per_batch
        self._types = types

    def prepare(self, item: Document) -> list[MentionText]:
        """The strings to look up."""
        return [
            MentionText(text, window)
            for text in self._texts(item)
            for window in self.standardizer.prepare(text)
        ]

    def length_of(self, window: MentionText) -> int:
        """About how many sub-words it has."""
        return self.standardizer.length_of(window.window)

    def forward(self, windows: Sequence[MentionText]) -> list[list[Found]]:
        """The candidates of each string, best first."""
        return self.standardizer.forward([window.window for window in windows])

    def finish(
        self, item: Document, windows: Sequence[MentionText], scores: Sequence[list[Found]]
    ) -> Document:
        """The document whose mentions have entities, candidates and probabilities."""
        found: dict[str, tuple[list[str], list[list[Found]]]] = {t: ([], []) for t in self._texts(item)}
        for window, score in zip(windows, scores, strict=True):
            found[window.text][0].append(window.window)
            found[window.text][1].append(score)
        answers = {text: self.standardizer.finish(text, *own) for text, own in found.items()}

        def linked(mention: Mention) -> Mention:
            answer = answers.get(item.text[mention.start : mention.end])
            if answer is None or not self._links(mention):
                return mention
            candidates = tuple((found.entity_id, found.score) for found in answer.candidates)
            return replace(
                mention, entity_id=answer.entity_id, candidates=candidates, probability=answer.probability
            )

        return replace(item, mentions=tuple(map(linked, item.mentions)))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """`linked_precision, linked_recall, linked_f1`.

        Ids of gold are understood as in training; of several, any is right.
        """
        found = {(d.document_id, m.start, m.end): m.entity_id for d in predicted for m in d.mentions}
        understood = [
            replace(
                d,
                mentions=tuple(
                    self._understood(m, found.get((d.document_id, m.start, m.end))) for m in d.mentions
                ),
            )
            for d in gold
        ]
        return score_linked_spans(understood, predicted, self._types)

    def _understood(self, mention: Mention, answer: str | None) -> Mention:
        """A gold mention with an id of the index: of several, the one that was answered."""
        known = self.standardizer.entity_of
        ids = [known(id_) or id_ for id_ in ids_of(mention.entity_id or "", known)]
        return replace(mention, entity_id=answer if answer in ids else next(iter(ids), None))

    def _links(self, mention: Mention) -> bool:
        return self._types is None or mention.type in self._types

    def _texts(self, document: Document) -> list[str]:
        return list(
            dict.fromkeys(document.text[m.start : m.end] for m in document.mentions if self._links(m))
        )
