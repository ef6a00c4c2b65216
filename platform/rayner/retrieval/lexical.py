"""The lexical side of an index: cosines of character n-grams weighted by TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from rayner.retrieval.candidates import lexical_candidates

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

ANALYZER = "char_wb"
_DTYPE: Any = np.float32


class LexicalSide:
    """The n-grams of N names, and their weights.

    Args:
        vectorizer: fitted on the names.
        postings: [V, N] float32: for each n-gram the names that have it, with weights; a name's column has
            length 1.
    """

    def __init__(self, vectorizer: TfidfVectorizer, postings: sparse.csr_matrix) -> None:
        self.vectorizer = vectorizer
        self.postings = postings

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        """Cosines [Q, N] of texts with all names, in float32; a text without a known n-gram has zeros."""
        queries: Any = self.vectorizer.transform(texts)
        return (queries @ self.postings).toarray()


class AllScores:
    """Cosines of texts with all names.

    Args:
        side: the n-grams of the names.
        spellings: for each text the strings that it is looked up by, at most two; the better one counts.
        first_name: [E] the first name of each entity.
    """

    def __init__(self, side: LexicalSide, spellings: Sequence[Sequence[str]], first_name: np.ndarray) -> None:
        self._scores = side.scores([of_one[0] for of_one in spellings])
        self._first = first_name
        if others := {i: of_one[1] for i, of_one in enumerate(spellings) if len(of_one) > 1}:
            rows = list(others)
            self._scores[rows] = np.maximum(self._scores[rows], side.scores(list(others.values())))

    def candidates(self, needed: np.ndarray) -> list[np.ndarray]:
        """Entities of the nearest names: at least `needed` [Q] of them, or all."""
        return lexical_candidates(np.maximum.reduceat(self._scores, self._first, axis=1), needed)

    def of(self, text: np.ndarray, name: np.ndarray) -> np.ndarray:
        """The cosines of pairs [P] of a text and a name, by their numbers."""
        return self._scores[text, name]


def fit_lexical(names: Sequence[str], ngrams: tuple[int, int]) -> LexicalSide:
    """Count the n-grams of the names, inside words and at their edges, ignoring case."""
    vectorizer = _vectorizer(ngrams)
    weights: Any = vectorizer.fit_transform(names)
    return LexicalSide(vectorizer, weights.T.tocsr())


def restore_lexical(
    vocabulary: Sequence[str], idf: np.ndarray, postings: sparse.csr_matrix, ngrams: tuple[int, int]
) -> LexicalSide:
    """The lexical side whose n-grams have this order and these inverse document frequencies."""
    places = {ngram: i for i, ngram in enumerate(vocabulary)}
    vectorizer = _vectorizer(ngrams, places)
    vectorizer.idf_ = idf
    return LexicalSide(vectorizer, postings)


def _vectorizer(ngrams: tuple[int, int], vocabulary: dict[str, int] | None = None) -> TfidfVectorizer:
    # Imported where it is used: a training worker has no use for it.
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer=ANALYZER, ngram_range=ngrams, dtype=_DTYPE, vocabulary=vocabulary)
