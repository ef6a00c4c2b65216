"""Lexical scores among many names: candidates by the rare n-grams of a string, then exact cosines of these.

A name that shares none of the n-grams that were looked up has at most the cosine that the length of the rest
of the query allows (the bound behind MaxScore, Turtle and Flood 1995; here by Cauchy and Schwarz): where the
names found are nearer than that, none of those is. Of the names that share some, those with the highest
cosines by these n-grams alone are scored exactly. One that is left out may be nearer by as much as the rest:
the nearest are found nearly always, not always, and docs/results has the recall.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rayner.retrieval import exact
from rayner.retrieval.candidates import DEPTH
from rayner.retrieval.lexical import LexicalSide

RESTS = (0.5, 0.4, 0.3)
"""Lengths of the part of a query of length 1 that is not looked up, tried in this order."""
MOST_POSTINGS = 2_000_000
"""Postings that are looked up for a string, beside those of its rarest n-gram."""
POOL = 256
"""Names whose cosines with the rare n-grams alone are highest, and which are scored exactly."""

MOST_KEPT = 2**15
"""Searches whose entities are kept, where they are: about 2 KB each."""


class PrunedScores:
    """Cosines of texts with some names; the matrix of all of them is never made.

    Args:
        side: the n-grams of the names; the postings of an n-gram are in ascending order of names.
        spellings: for each text the strings that it is looked up by; the best one counts.
        entity_of_name: [N] ascending.
    """

    def __init__(
        self, side: LexicalSide, spellings: Sequence[Sequence[str]], entity_of_name: np.ndarray
    ) -> None:
        self._side = side
        self._postings = side.postings
        self._entity = entity_of_name
        self._spellings = [spelling for of_one in spellings for spelling in of_one]
        self._queries: Any = side.vectorizer.transform(self._spellings)
        self._text = np.repeat(np.arange(len(spellings)), [len(of_one) for of_one in spellings])

    def candidates(self, needed: np.ndarray) -> list[np.ndarray]:
        """Entities of the nearest names: at least `needed` [Q] of them, or all."""
        found = [self._found(i, int(needed[text])) for i, text in enumerate(self._text)]
        of_texts: list[np.ndarray] = []
        for text, count in enumerate(needed):
            entities = np.unique(np.concatenate([found[i] for i in np.flatnonzero(self._text == text)]))
            if len(entities) < count:
                # Names without a common n-gram are equally far.
                first = np.arange(min(count, self._entity[-1] + 1))
                entities = np.union1d(entities, first)
            of_texts.append(entities)
        return of_texts

    def of(self, text: np.ndarray, name: np.ndarray) -> np.ndarray:
        """The cosines, float32, of pairs [P] of a text and a name, by number; those of a text together."""
        best = np.zeros(len(name), np.float32)
        begins = np.flatnonzero(np.diff(text, prepend=-1))
        for begin, end in zip(begins, np.append(begins, len(text))[1:], strict=True):
            for query in np.flatnonzero(self._text == text[begin]).tolist():
                np.maximum(best[begin:end], self._cosines(query, name[begin:end]), out=best[begin:end])
        return best

    def _found(self, query: int, needed: int) -> np.ndarray:
        kept, key = self._side.found, (self._spellings[query], needed)
        if kept is not None and key in kept:
            return kept[key]
        entities = self._of_query(query, needed)
        # What is asked again comes in the same order: the first ones are as good as the last ones.
        if kept is not None and len(kept) < MOST_KEPT:
            kept[key] = entities
        return entities

    def _of_query(self, query: int, needed: int) -> np.ndarray:
        """Entities of the names that are nearest by the rarest n-grams of a string."""
        of_row = slice(self._queries.indptr[query], self._queries.indptr[query + 1])
        ngrams, weights = self._queries.indices[of_row], self._queries.data[of_row]
        if not len(ngrams):
            return np.empty(0, np.int64)
        counts = self._postings.indptr[ngrams + 1] - self._postings.indptr[ngrams]
        order = np.argsort(counts, kind="stable")
        scores, seen = np.float32(0), 0
        entities = np.empty(0, np.int64)
        for end, left in _steps(weights[order], counts[order]):
            scores = scores + self._side.sums(ngrams[order[seen:end]], weights[order[seen:end]])
            seen = end
            entities, least = self._nearest(scores, needed)
            if least >= left:
                break
        return entities

    def _nearest(self, scores: np.ndarray, needed: int) -> tuple[np.ndarray, float]:
        """Entities of the highest scores above 0, and the score of the last one that is needed."""
        count = max(POOL, DEPTH * needed)
        while True:
            best, rows = exact.largest(torch.from_numpy(scores)[None], min(count, len(scores)))
            order = best[0].argsort(descending=True)
            values, names = best[0][order].numpy(), rows[0][order].numpy()
            names = names[values > 0]
            entities, first = np.unique(self._entity[names], return_index=True)
            if len(entities) >= needed:
                return entities.astype(np.int64), float(values[np.sort(first)[needed - 1]])
            if len(names) < count:
                return entities.astype(np.int64), 0.0
            count *= 4

    def _cosines(self, query: int, names: np.ndarray) -> np.ndarray:
        """N-grams are added up in the order in which those of all names are: equal to the last bit."""
        of_row = slice(self._queries.indptr[query], self._queries.indptr[query + 1])
        weights = np.zeros(self._queries.shape[1], np.float32)
        weights[self._queries.indices[of_row]] = self._queries.data[of_row]
        return self._side.by_name[names] @ weights


def _steps(weights: np.ndarray, postings: np.ndarray) -> list[tuple[int, float]]:
    """How many n-grams of a query are looked up, one time after the other, and what is left then.

    Args:
        weights: [G] of the n-grams, the rarest first.
        postings: [G] how many names have each.

    Returns:
        Numbers of n-grams, ascending, until what is left of the query is as short as `RESTS` say, or there
        are too many postings; and the length of what is left: 0 where no more of it is looked up.
    """
    # From the end: what is left of the whole query is 0 exactly.
    squares = np.square(weights, dtype=np.float64)
    lengths = np.sqrt(np.append(np.cumsum(squares[::-1])[::-1][1:], 0.0))
    most = int(np.searchsorted(np.cumsum(postings), MOST_POSTINGS))
    steps = []
    for rest in RESTS:
        enough = int(np.argmax(lengths <= rest))
        if enough > most:
            return [*steps, (min(most + 1, len(weights)), 0.0)]
        steps.append((enough + 1, float(lengths[enough])))
    return steps
