"""The lexical side of an index: cosines of character n-grams weighted by TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

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
