"""The lexical side of an index: cosines of character n-grams weighted by TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rayner.retrieval.candidates import lexical_candidates

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

ANALYZER = "char_wb"
_DTYPE: Any = np.float32


class LexicalSide:
    """The n-grams of N names, and their weights.

    Args:
        vectorizer: fitted on the names.
        postings: [V, N] float32: for each n-gram the names that have it, with weights; a name's column has
            length 1.
        by_name: [N, V], the same by names, where it is kept; else it is made when it is asked for.

    Attributes:
        found: the entities that `PrunedScores` found, by string and number, where the same strings are asked
            for again and again; None keeps none.
    """

    def __init__(
        self, vectorizer: TfidfVectorizer, postings: csr_matrix, by_name: csr_matrix | None = None
    ) -> None:
        self.vectorizer = vectorizer
        self.postings = postings
        self._by_name = by_name
        self.found: dict[tuple[str, int], np.ndarray] | None = None

    @property
    def by_name(self) -> csr_matrix:
        """The weights [N, V] by names."""
        if self._by_name is None:
            self._by_name = self.postings.T.tocsr()
        return self._by_name

    def keep_by_name(self) -> None:
        """Make `by_name` before it is asked for: processes to which this is sent share it then."""
        self._by_name = self.by_name

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        """Cosines [Q, N] of texts with all names, in float32; a text without a known n-gram has zeros."""
        queries: Any = self.vectorizer.transform(texts)
        postings: Any = self.postings
        found = np.zeros((len(texts), postings.shape[1]), np.float32)
        for row, begin, end in zip(found, queries.indptr, queries.indptr[1:], strict=False):
            if begin < end:
                row[:] = self.sums(queries.indices[begin:end], queries.data[begin:end])
        return found

    def sums(self, ngrams: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """For all names [N] the sums of these n-grams' weights in them times `weights` [G], in that order."""
        # With the names in one array: a product of sparse matrices takes several times as long.
        chosen: Any = self.postings[ngrams]
        return chosen.T @ weights


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
        of_names = self._scores
        alone = len(self._first) == of_names.shape[1]
        best = of_names if alone else np.maximum.reduceat(of_names, self._first, axis=1)
        return lexical_candidates(best, needed)

    def of(self, text: np.ndarray, name: np.ndarray) -> np.ndarray:
        """The cosines of pairs [P] of a text and a name, by their numbers."""
        return self._scores[text, name]


def fit_lexical(names: Sequence[str], ngrams: tuple[int, int]) -> LexicalSide:
    """Count the n-grams of the names, inside words and at their edges, ignoring case."""
    vectorizer = _vectorizer(ngrams)
    weights: Any = vectorizer.fit_transform(names)
    return LexicalSide(vectorizer, weights.T.tocsr())


def restore_lexical(
    vocabulary: Sequence[str],
    idf: np.ndarray,
    postings: csr_matrix,
    by_name: csr_matrix | None,
    ngrams: tuple[int, int],
) -> LexicalSide:
    """The lexical side whose n-grams have this order and these inverse document frequencies."""
    places = {ngram: i for i, ngram in enumerate(vocabulary)}
    vectorizer = _vectorizer(ngrams, places)
    vectorizer.idf_ = idf
    return LexicalSide(vectorizer, postings, by_name)


def _vectorizer(ngrams: tuple[int, int], vocabulary: dict[str, int] | None = None) -> TfidfVectorizer:
    # Imported where it is used: a training worker has no use for it.
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer=ANALYZER, ngram_range=ngrams, dtype=_DTYPE, vocabulary=vocabulary)
