"""Contexts by BM25: sentences that share rare words.

The variant of Amalvy et al. 2023 (EMNLP), which is BM25Okapi of the package rank_bm25 (Trotman et al. 2014):
term frequencies of ATIRE, inverse document frequencies of Robertson, those below zero raised to a share of
their mean. The package bm25s has no such floor and scores one query at a time; here a block of queries is one
product of sparse matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rayner.retrieval.document_sentences import DocumentSentences, FoundContexts, Method, by_text

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


K1 = 1.5
"""How slowly further occurrences of a word stop to count."""
B = 0.75
"""How much long sentences are held back, from 0 to 1."""


def bm25(*, epsilon: float = 0.25, case: bool = True) -> Method:
    """The method `bm25`: sentences with the highest scores above zero, each word of the query counted.

    Args:
        epsilon: what words in over half of the sentences get, as a share of the mean inverse document
            frequency.
        case: whether words that differ in case differ.
    """

    def find(sentences: DocumentSentences, queries: np.ndarray, count: int) -> FoundContexts:
        counts = count_words(sentences.words, case)
        weights = okapi_weights(counts, epsilon)
        asked = counts[sentences.first]
        postings: Any = weights[sentences.first].T.tocsr()

        def score(texts: np.ndarray) -> np.ndarray:
            # Sums that differ by rounding alone are equal in float32.
            scores = (asked[texts] @ postings).toarray().astype(np.float32)
            return np.where(scores > 0, scores, -np.inf)

        return by_text(sentences, queries, score, count)

    return find


def count_words(words: Sequence[Sequence[str]], case: bool) -> csr_matrix:
    """How often each sentence has each word: [S, V] float64."""
    from scipy.sparse import csr_matrix

    numbers: dict[str, int] = {}
    spelled = (w if case else w.casefold() for of_one in words for w in of_one)
    column = [numbers.setdefault(word, len(numbers)) for word in spelled]
    lengths = np.array([len(of_one) for of_one in words], dtype=np.int64)
    row = np.repeat(np.arange(len(words)), lengths)
    shape = (len(words), len(numbers))
    return csr_matrix((np.ones(len(column)), (row, column)), shape)


def okapi_weights(counts: Any, epsilon: float) -> csr_matrix:
    """What a sentence scores for a word of the query: [S, V], of counts [S, V].

    With f the count, n the sentences that have the word, N all sentences, l the words of the sentence and L
    their mean: log((N - n + 0.5) / (n + 0.5)) f (K1 + 1) / (f + K1 (1 - B + B l / L)).
    """
    from scipy.sparse import csr_matrix

    sentences = counts.shape[0]
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log(sentences - having + 0.5) - np.log(having + 0.5)
    if len(idf):
        idf = np.where(idf < 0, epsilon * idf.mean(), idf)
    length = np.asarray(counts.sum(axis=1)).ravel()
    slowed = K1 * (1 - B + B * length / max(length.mean(), 1e-9)) if sentences else length
    row = np.repeat(np.arange(sentences), np.diff(counts.indptr))
    data = counts.data * (K1 + 1) / (counts.data + slowed[row]) * idf[counts.indices]
    return csr_matrix((data, counts.indices, counts.indptr), counts.shape)
