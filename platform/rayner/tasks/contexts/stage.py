"""Which other sentences of its document each sentence is read with (papers/001, section 4).

The stage `contexts` of a pipeline; `in_recipes` asks it for tasks whose recipe has a `context`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from rayner.config.documents import ContextChoice, ContextSettings
from rayner.data.schema import Context, Document
from rayner.data.sentences import sentences_of
from rayner.retrieval.context_choice import diverse
from rayner.retrieval.context_methods import Encode
from rayner.retrieval.contexts import Candidate, context_methods, find_contexts
from rayner.retrieval.document_sentences import DocumentSentences
from rayner.retrieval.nouns import noun_tagger


@dataclass(frozen=True, slots=True)
class ContextCandidates:
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

    candidates: ContextCandidates
    texts: tuple[int, int]
    window: Any


class ContextStage:
    """Gives each sentence of a document its contexts; a document that has some keeps them.

    Args:
        settings: which.
        ranker: a `PairRanker`; None takes the best of each method in turn.
        encode: texts to vectors, for the method `dense`; None takes those of the ranker's encoder.
    """

    whole = True
    names: Sequence[str] = ()

    def __init__(self, settings: ContextChoice, ranker: Any = None, encode: Encode | None = None) -> None:
        self._settings = settings
        self._ranker = ranker
        if encode is None:
            encode = getattr(ranker, "sentence_vectors", None)
        where = "context.nouns" if isinstance(settings, ContextSettings) else "nouns"
        if settings.choice == "diverse":
            self._nouns = noun_tagger(settings.nouns, where=where)[1]
        self._methods = context_methods(
            settings.methods,
            seed=settings.seed,
            case=settings.case,
            nouns=noun_tagger(settings.nouns, settings.lemmas, where=where)[1]
            if "same_noun" in settings.methods
            else None,
            encode=encode,
        )
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
        ranker, texts, first = self._ranker, found.sentences.texts, found.sentences.first
        ids = {text: ranker.subwords(texts[first[text]]) for text in set(chain.from_iterable(pairs))}
        return [CandidatePair(found, (one, other), ranker.pair(ids[one], ids[other])) for one, other in pairs]

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
            self._chosen(found, sentence, candidates, score_of, names)
            for sentence, (candidates, names) in enumerate(
                zip(found.of_sentence, self._names(found), strict=True)
            )
        )
        return replace(found.document, sentence_contexts=contexts)

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """Nothing: nobody says which contexts are right."""
        return {}

    def candidates(self, document: Document) -> ContextCandidates:
        """The sentences of a document, and what the methods propose for each."""
        spans = sentences_of(document)
        sentences = DocumentSentences([document.text[start:end] for start, end in spans])
        count = self._settings.candidates or self._settings.count
        found = find_contexts(sentences, self._methods, count) if spans else []
        return ContextCandidates(replace(document, sentences=tuple(spans)), sentences, found)

    def _chosen(
        self,
        found: ContextCandidates,
        sentence: int,
        candidates: Sequence[Candidate],
        score_of: Mapping[tuple[int, int], float],
        names: AbstractSet[str],
    ) -> tuple[Context, ...]:
        settings = self._settings
        if self._ranker is None:
            # The order of choice is what counts where not all have room.
            ordered = [(one, 1 / place) for place, one in enumerate(in_turn(candidates), 1)]
        else:
            scored = [(one, score_of[found.texts_of(sentence, one)]) for one in candidates]
            ordered = sorted(
                (pair for pair in scored if pair[1] >= settings.minimum), key=lambda pair: -pair[1]
            )
        places: Sequence[int] = range(min(settings.count, len(ordered)))
        turns: dict[int, int] = {}
        if settings.choice == "diverse":
            words = [frozenset(found.sentences.words[one.sentence]) for one, _ in ordered]
            relevance = [score for _, score in ordered]
            places = diverse(relevance, words, names, settings.count, settings.diversity)
            turns = {ordered[place][0].sentence: turn for turn, place in enumerate(places)}
        texts, spans = found.sentences.texts, found.document.sentences or ()
        chosen = sorted((ordered[place][0].sentence, ordered[place][1]) for place in places)
        return tuple(
            Context(texts[place], score, place < sentence, *spans[place], turns.get(place))
            for place, score in chosen
        )

    def _names(self, found: ContextCandidates) -> Sequence[AbstractSet[str]]:
        """Of each sentence, the nouns that are not written small: what may be a mention."""
        if self._settings.choice == "top":
            return [frozenset()] * len(found.of_sentence)
        nouns = self._nouns(found.sentences.words)
        return [frozenset(word for word in of_one if not word.islower()) for of_one in nouns]


def in_turn(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates: the best of each method, then the second of each, and so on."""
    turns: dict[str, int] = {}
    ordered = []
    for candidate in candidates:
        turn = turns[candidate.method] = turns.get(candidate.method, -1) + 1
        ordered.append((turn, candidate))
    return [candidate for _, candidate in sorted(ordered, key=lambda pair: pair[0])]
