"""An index of entities: from strings and their vectors to the entities that are meant."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from rayner.config import IndexSettings
from rayner.retrieval.candidates import Candidates, dense_candidates
from rayner.retrieval.combiner import Combiner, Weight, fuse
from rayner.retrieval.crowds import cut_crowds
from rayner.retrieval.dense import DenseSide
from rayner.retrieval.entity_table import EntityTable
from rayner.retrieval.lexical import AllScores, LexicalSide
from rayner.retrieval.names import Found, Names
from rayner.retrieval.pruned import PrunedScores
from rayner.retrieval.short_forms import expand

MOST_SCORED = 100_000
"""Names up to which a string is compared with all of them by n-grams; with `search: exact`, it always is."""
_CELLS = 2**24
"""Lexical scores in memory at a time."""


class EntityIndex:
    """Entities, found by their names.

    Args:
        entities: of the knowledge base.
        names: of the entities, at least one each.
        dense: the vectors of the names.
        lexical: the n-grams of the names.
        abbreviations: short form -> long form.
        settings: those it was built with.
        origin: what made the vectors; empty in memory.
        version: of the folder that it was opened from; 0 in memory.
    """

    def __init__(
        self,
        entities: EntityTable,
        names: Names,
        dense: DenseSide,
        lexical: LexicalSide,
        abbreviations: Mapping[str, str],
        settings: IndexSettings,
        origin: Mapping[str, Any] | None = None,
        version: int = 0,
    ) -> None:
        self.entities = entities
        self.names = names
        self.dense = dense
        self.lexical = lexical
        self.abbreviations = abbreviations
        self.settings = settings
        self.origin: Mapping[str, Any] = origin or {}
        self.version = version
        self._first = np.searchsorted(names.entity, np.arange(len(entities)))
        self._count = np.diff(np.append(self._first, len(names)))

    def search(
        self,
        texts: Sequence[str],
        vectors: np.ndarray,
        k: int,
        weight: Weight,
        exclude: Sequence[Collection[str]] | None = None,
    ) -> list[list[Found]]:
        """The k best entities for each text, best first, none twice; fewer where the index has fewer.

        Of equal scores, the first entities of the index come first, however many have a name that is written
        so: of a name in several spellings, some come first.

        An entity's dense and lexical scores are those of its best names. Candidates are the best of either
        side, and each of them is scored by both.

        Args:
            texts: the strings, for the lexical side; abbreviations in them are expanded there.
            vectors: [Q, D], of the texts, by the encoder of the index.
            weight: of the lexical score beside the dense one. 0 leaves the lexical side out (its score
                is then 0), infinity the dense one: the score is then the lexical one. Or a combiner of both.
            exclude: for each text the ids of entities that are not to be found.

        Raises:
            InputError: vectors of another size than those of the index.
        """
        if len(vectors) != len(texts) or (exclude is not None and len(exclude) != len(texts)):
            raise ValueError(f"{len(texts)} texts, {len(vectors)} vectors")
        if not texts or k < 1:
            return [[] for _ in texts]
        queries = self.dense.prepare(vectors)
        barred = self._barred(exclude or [()] * len(texts))
        near = [np.empty(0, np.int64) for _ in texts]
        if weight != math.inf:
            needed = np.array([max(k, 2) + len(numbers) for numbers in barred])
            near = dense_candidates(self.dense, self.names.entity, queries, needed)
        step = max(1, _CELLS // len(self.names)) if weight else len(texts)
        found: list[list[Found]] = []
        for begin in range(0, len(texts), step):
            part = slice(begin, begin + step)
            found += self._rank(texts[part], queries[part], near[part], barred[part], k, weight)
        return found

    def _rank(
        self,
        texts: Sequence[str],
        queries: Tensor,
        near: Sequence[np.ndarray],
        barred: Sequence[np.ndarray],
        k: int,
        weight: Weight,
    ) -> list[list[Found]]:
        alike: AllScores | PrunedScores | None = self._lexical_scores(texts) if weight else None
        candidates = list(near)
        if alike is not None:
            others = alike.candidates(np.array([max(k, 2) + len(numbers) for numbers in barred]))
            candidates = [np.union1d(*pair) for pair in zip(near, others, strict=True)]
        kept = [np.setdiff1d(of, out) if len(out) else of for of, out in zip(candidates, barred, strict=True)]
        pairs = Candidates.of(kept, self._first, self._count)
        similarities = self.dense.similarities(queries, pairs.query_of_name, pairs.name)
        similarities = similarities[self._first_alike(pairs)]
        cosines = np.zeros_like(similarities)
        if alike is not None:
            cosines = alike.of(pairs.query_of_name, pairs.name)
        dense, lexical = (_best_names(scores, pairs) for scores in (similarities, cosines))
        if isinstance(weight, Combiner):
            score = weight.score(dense, lexical, np.flatnonzero(np.diff(pairs.query, prepend=-1)))
            weight = weight.weight
        else:
            score = fuse(dense, lexical, weight)
        best = fuse(similarities, cosines, weight)

        def matched(pair: int) -> str:
            first = int(pairs.first[pair])
            of_entity = best[first : first + self._count[pairs.entity[pair]]]
            return self.names.text(pairs.name[first + np.argmax(of_entity)])

        chosen = _best(pairs, score, k)
        entity = self._first_of_crowds(pairs, score, chosen, barred, matched)
        found: list[list[Found]] = [[] for _ in texts]
        for i, number in zip(chosen.tolist(), entity.tolist(), strict=True):
            scores = (float(score[i]), float(dense[i]), float(lexical[i]))
            id_, name = self.entities.entity_id(number), self.entities.name(number)
            found[int(pairs.query[i])].append(Found(id_, name, matched(i), *scores))
        return found

    def _first_alike(self, pairs: Candidates) -> np.ndarray:
        """For each name [R] of the pairs the first place where the same query has an equal one.

        A product with a matrix differs in its last bit from row to row, which would order equal names.
        """
        codes = self.names.texts.take(pa.array(pairs.name)).dictionary_encode().indices.to_numpy()
        key = pairs.query_of_name * (codes.max(initial=0) + 1) + codes
        _, first, alike = np.unique(key, return_index=True, return_inverse=True)
        return first[alike]

    def _first_of_crowds(
        self,
        pairs: Candidates,
        score: np.ndarray,
        chosen: np.ndarray,
        barred: Sequence[np.ndarray],
        matched: Callable[[int], str],
    ) -> np.ndarray:
        """The entities of the chosen pairs: of more of one name than there are candidates, the first.

        In `chosen`, a pair of the same scores takes the place of one that is not first.
        """
        entity = pairs.entity[chosen]
        of_name: dict[str, np.ndarray] = {}
        for places, tied in cut_crowds(pairs, score, chosen):
            like = int(chosen[places[-1]])
            name, query = matched(like), pairs.query[like]
            if name not in of_name:
                of_name[name] = self.names.entities_with(name)
            known = pairs.entity[pairs.query == query]
            # What has the name and is no candidate has the scores of those that are.
            more = np.setdiff1d(of_name[name], np.append(known, barred[query]))
            both = np.append(pairs.entity[tied], more)
            first = np.argsort(both)[: len(places)]
            entity[places] = both[first]
            chosen[places] = np.append(tied, np.full(len(more), like))[first]
        return entity

    def _lexical_scores(self, texts: Sequence[str]) -> AllScores | PrunedScores:
        spellings = [list(dict.fromkeys([text, self.expand(text)])) for text in texts]
        if self.scores_all:
            return AllScores(self.lexical, spellings, self._first)
        return PrunedScores(self.lexical, spellings, self.names.entity)

    @property
    def scores_all(self) -> bool:
        """Whether a string is compared with all names by n-grams."""
        return scores_all(len(self.names), self.settings)

    def expand(self, text: str) -> str:
        """The text with its abbreviations written out, where the knowledge base explains them."""
        return expand(text, self.abbreviations)

    def _barred(self, exclude: Sequence[Collection[str]]) -> list[np.ndarray]:
        numbers = self.entities.numbers if any(exclude) else {}
        return [np.array([numbers[id_] for id_ in set(ids) if id_ in numbers], np.int64) for ids in exclude]


def scores_all(names: int, settings: IndexSettings) -> bool:
    """As `EntityIndex.scores_all`, of an index of so many names."""
    return settings.search == "exact" or names <= MOST_SCORED


def _best_names(scores: np.ndarray, pairs: Candidates) -> np.ndarray:
    """The highest score [P] of the names of each pair's entity."""
    return np.maximum.reduceat(scores, pairs.first) if len(pairs.first) else scores


def _best(pairs: Candidates, score: np.ndarray, k: int) -> np.ndarray:
    """The pairs of the k highest scores of each query, best first; of equal ones the first entities."""
    order = np.lexsort((pairs.entity, -score, pairs.query))
    query = pairs.query[order]
    place = np.arange(len(order)) - np.searchsorted(query, query)
    return order[place < k]
