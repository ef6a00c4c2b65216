"""The standardizer as a stage: it names the entities of the mentions that a stage before it found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rayner.data.abbreviations import strings_of_mentions
from rayner.data.mention_strings import ids_of, is_right
from rayner.data.schema import UNKNOWN, Candidate, Document, Mention
from rayner.data.sentences import sentences_of_mentions
from rayner.metrics.counts import Key
from rayner.metrics.linked_spans import score_linked_spans
from rayner.retrieval.names import Found
from rayner.tasks.standardizer.predictor import Standardizer
from rayner.tasks.standardizer.reranker import Query


class MentionText(NamedTuple):
    """A mention, and what the standardizer looks up for it."""

    mention: Query
    window: Query


@runtime_checkable
class Linking(Protocol):
    """A stage of entities that says which mentions it links. Those of a chain are scored together, a mention
    by the last one that links it; a stage of entities that is no such one is scored by itself."""

    def links(self, mention: Mention) -> bool:
        """Whether it looks for entities of mentions of the type."""
        ...

    def right_ids(self, mention: Mention) -> tuple[tuple[str, ...], bool]:
        """The ids of a gold mention, by those of its knowledge base where it has them; whether it has any."""
        ...

    def names_of(self, ids: Collection[str]) -> Mapping[str, str]:
        """The names of those of the entities that it has, by id."""
        ...


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


def last_linking(stages: Sequence[Linking], mention: Mention) -> Linking | None:
    """The last stage that links mentions of the type, whose answer a mention has; None if none does."""
    return next((stage for stage in reversed(stages) if stage.links(mention)), None)


def score_links(
    stages: Sequence[Linking], predicted: Sequence[Document], gold: Sequence[Document]
) -> dict[str, Any]:
    """`linked_precision, linked_recall, linked_f1` of the mentions that one of the stages links.

    A mention has the entity of the last stage that links it. A gold mention that is given twice with
    different entities counts once, and any of them is right.
    """
    found = {(d.document_id, m.start, m.end, m.type): m.entity_id for d in predicted for m in d.mentions}

    def understood(document: Document) -> Document:
        ids: dict[Key, list[str]] = {}
        for mention in document.mentions:
            stage = last_linking(stages, mention)
            if stage and mention.type != UNKNOWN:
                key = mention.start, mention.end, mention.type
                ids.setdefault(key, []).extend(stage.right_ids(mention)[0])
        mentions = []
        for key, right in ids.items():
            answer = found.get((document.document_id, *key))
            mentions.append(Mention(*key, answer if is_right(answer, right) else next(iter(right), None)))
        # Whatever is answered on a mark of unknown type does not count.
        mentions += [mention for mention in document.mentions if mention.type == UNKNOWN]
        return replace(document, mentions=tuple(mentions))

    def linked(document: Document) -> Document:
        return replace(document, mentions=tuple(m for m in document.mentions if last_linking(stages, m)))

    return score_linked_spans([*map(understood, gold)], [*map(linked, predicted)])
