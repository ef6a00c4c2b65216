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
from scipy import sparse

from rayner.retrieval.candidates import DEPTH
from rayner.retrieval.lexical import LexicalSide

RESTS = (0.5, 0.4, 0.3)
"""Lengths of the part of a query of length 1 that is not looked up, tried in this order."""
MOST_POSTINGS = 2_000_000
"""Postings that are looked up for a string, beside those of its rarest n-gram."""
POOL = 256
"""Names whose cosines with the rare n-grams alone are highest, and which are scored exactly."""


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
        self._postings = side.postings
        self._entity = entity_of_name
        self._queries: Any = side.vectorizer.transform([s for of_one in spellings for s in of_one])
        self._text = np.repeat(np.arange(len(spellings)), [len(of_one) for of_one in spellings])

    def candidates(self, needed: np.ndarray) -> list[np.ndarray]:
        """Entities of the nearest names: at least `needed` [Q] of them, or all."""
        wanted = needed[self._text]
        found = [np.empty(0, np.int64) for _ in wanted]
        pending = np.arange(len(wanted))
        for rest in RESTS:
            if not len(pending):
                break
            pruned, left = _rarest(self._queries[pending], np.diff(self._postings.indptr), rest)
            scores: Any = pruned @ self._postings
            again = []
            for i, query in enumerate(pending):
                of_row = slice(scores.indptr[i], scores.indptr[i + 1])
                found[query], least = self._nearest(
                    scores.data[of_row], scores.indices[of_row], int(wanted[query])
                )
                if least < left[i]:
                    again.append(query)
            pending = np.array(again, np.int64)
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

    def _nearest(self, scores: np.ndarray, names: np.ndarray, needed: int) -> tuple[np.ndarray, float]:
        """Entities of the highest scores, and the score of the last one that is needed."""
        count, least = max(POOL, DEPTH * needed), 0.0
        while True:
            values, places = torch.from_numpy(scores).topk(min(count, len(scores)))
            entities, first = np.unique(self._entity[names[places.numpy()]], return_index=True)
            if len(entities) >= needed:
                least = float(values[np.sort(first)[needed - 1]])
            if len(entities) >= needed or len(values) == len(scores):
                return entities.astype(np.int64), least
            count *= 4

    def _cosines(self, query: int, names: np.ndarray) -> np.ndarray:
        """In the order in which a product of sparse matrices adds n-grams up: equal to its last bit."""
        found = np.zeros(len(names), np.float32)
        of_row = slice(self._queries.indptr[query], self._queries.indptr[query + 1])
        postings = self._postings
        for ngram, weight in zip(self._queries.indices[of_row], self._queries.data[of_row], strict=True):
            of_ngram = slice(postings.indptr[ngram], postings.indptr[ngram + 1])
            having = postings.indices[of_ngram]
            places = np.minimum(np.searchsorted(having, names), len(having) - 1)
            hits = np.flatnonzero(having[places] == names)
            found[hits] += weight * postings.data[of_ngram][places[hits]]
        return found


def _rarest(queries: Any, postings: np.ndarray, rest: float) -> tuple[sparse.csr_matrix, np.ndarray]:
    """The rarest n-grams of queries [Q, V], until what is left of one is at most `rest` long, or too many.

    Args:
        postings: [V] how many names have an n-gram.

    Returns:
        The queries with these n-grams alone, and [Q] the length of what each has beside them; 0 where it has
        too many postings for more of it to be looked up.
    """
    kept = np.zeros(queries.nnz, bool)
    left = np.zeros(queries.shape[0])
    for row in range(queries.shape[0]):
        begin, end = queries.indptr[row], queries.indptr[row + 1]
        if begin == end:
            continue
        order = np.argsort(postings[queries.indices[begin:end]], kind="stable")
        squares = np.square(queries.data[begin:end][order], dtype=np.float64)
        # From the end: what is left of the whole query is 0 exactly.
        lengths = np.sqrt(np.append(np.cumsum(squares[::-1])[::-1][1:], 0.0))
        touched = np.cumsum(postings[queries.indices[begin:end][order]])
        enough, most = int(np.argmax(lengths <= rest)), int(np.searchsorted(touched, MOST_POSTINGS))
        kept[begin + order[: min(enough, most) + 1]] = True
        left[row] = lengths[enough] if enough <= most else 0.0
    counts = np.concatenate([[0], np.cumsum(kept)])[queries.indptr]
    pruned = sparse.csr_matrix((queries.data[kept], queries.indices[kept], counts), shape=queries.shape)
    return pruned, left
