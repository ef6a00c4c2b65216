"""The standardizer as a stage: it names the entities of the mentions that a stage before it found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rayner.data.abbreviations import strings_of_mentions
from rayner.data.mention_strings import ids_of
from rayner.data.schema import Candidate, Document, Mention
from rayner.data.sentences import sentences_of_mentions
from rayner.retrieval.names import Found
from rayner.tasks.link_scores import score_links
from rayner.tasks.standardizer.predictor import Standardizer
from rayner.tasks.standardizer.reranker import Query


class MentionText(NamedTuple):
    """A mention, and what the standardizer looks up for it."""

    mention: Query
    window: Query


class Entities:
    """Names the entities of the mentions of documents.

    Its windows are the distinct strings of a document's mentions, with the long forms of abbreviations and
    the sentences where the standardizer wants them; equal strings of a batch are encoded and searched once.

    Args:
        standardizer: what says which entity a mention is.
        types: those whose mentions are in the knowledge base; None for all. Mentions of other types keep an
            entity that has candidates, an answer of before, and lose any other.
    """

    whole = True

    def __init__(self, standardizer: Standardizer, types: Collection[str] | None = None) -> None:
        self.standardizer = standardizer
        self.forward_cost = standardizer.forward_cost
        self.tokens_per_batch = standardizer.tokens_per_batch
        self._types = types

    @property
    def linked_types(self) -> Collection[str] | None:
        """The types whose mentions it links; None for all."""
        return self._types

    def prepare(self, item: Document) -> list[MentionText]:
        """The strings to look up."""
        return [
            MentionText(query, window)
            for query in dict.fromkeys(filter(None, self._queries(item)))
            for window in self.standardizer.prepare(query)
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
        """The document whose mentions have entities with names, candidates and probabilities."""
        queries = self._queries(item)
        found: dict[Query, tuple[list[Query], list[list[Found]]]] = {
            query: ([], []) for query in queries if query is not None
        }
        for window, score in zip(windows, scores, strict=True):
            found[window.mention][0].append(window.window)
            found[window.mention][1].append(score)
        answers = {query: self.standardizer.finish(query, *own) for query, own in found.items()}

        def linked(mention: Mention, query: Query | None) -> Mention:
            if query is None:
                if mention.candidates:
                    return mention
                return replace(mention, entity_id=None, name=None, probability=None)
            answer = answers[query]
            candidates = tuple(
                Candidate(found.entity_id, found.score, found.name, found.matched)
                for found in answer.candidates
            )
            return replace(
                mention,
                entity_id=answer.entity_id,
                name=answer.name,
                candidates=candidates,
                probability=answer.probability,
            )

        return replace(item, mentions=tuple(map(linked, item.mentions, queries)))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """`linked_precision, linked_recall, linked_f1`.

        Ids of gold are understood as in training; of several, any is right, and so are several of them.
        """
        return score_links([self], predicted, gold)

    def links(self, mention: Mention) -> bool:
        """Whether it looks for entities of mentions of the type."""
        return self._types is None or mention.type in self._types

    def right_ids(self, mention: Mention) -> tuple[tuple[str, ...], bool]:
        """The ids of a gold mention, by those of the index where it has them; whether it has any of them."""
        known = self.standardizer.entity_of
        ids = ids_of(mention.entity_id or "", known)
        return tuple(known(id_) or id_ for id_ in ids), any(known(id_) for id_ in ids)

    def names_of(self, ids: Collection[str]) -> dict[str, str]:
        """The names of those of the entities that its index has, by id."""
        return self.standardizer.index.entities.names_of(ids)

    def _queries(self, document: Document) -> list[Query | None]:
        """That by which each mention is looked up; None for one that is not."""
        if not any(map(self.links, document.mentions)):
            return [None] * len(document.mentions)
        strings = strings_of_mentions(document, self.standardizer.abbreviations)
        reads = self.standardizer.reads_sentences
        sentences = sentences_of_mentions(document) if reads else [None] * len(strings)
        queries = map(Query, strings, sentences)
        return [query if self.links(m) else None for m, query in zip(document.mentions, queries, strict=True)]
