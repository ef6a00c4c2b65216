"""Contexts that share a noun with the sentence (Amalvy et al. 2023, `samenoun`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rayner.retrieval.bm25 import count_words
from rayner.retrieval.document_sentences import DocumentSentences, Found, Method, by_text

Tagger = Callable[[Sequence[Sequence[str]]], list[list[str]]]
"""The words of a document's sentences to the nouns of each sentence, as written or as lemmas."""


def same_noun(nouns: Tagger, seed: int = 0, *, case: bool = True) -> Method:
    """The method `same_noun`: sentences with a noun in common, drawn at random where there are more.

    A score is the number of nouns in common. What is drawn for a sentence depends on no other query.

    Args:
        case: whether nouns that differ in case differ.
    """

    def find(sentences: DocumentSentences, queries: np.ndarray, count: int) -> Found:
        having: Any = count_words(nouns(sentences.words), case)[sentences.first]
        having.data[:] = 1
        transposed = having.T.tocsr()

        def score(texts: np.ndarray) -> np.ndarray:
            shared: Any = having[texts] @ transposed
            scores = np.full(shared.shape, -np.inf, dtype=np.float32)
            for row, text in enumerate(texts.tolist()):
                of_row = slice(shared.indptr[row], shared.indptr[row + 1])
                column, common = shared.indices[of_row], shared.data[of_row]
                order = np.argsort(column)
                others = order[column[order] != text]
                if len(others) > count:
                    drawn = np.random.default_rng((seed, int(sentences.first[text])))
                    others = others[drawn.choice(len(others), count, replace=False)]
                scores[row, column[others]] = common[others]
            return scores

        return by_text(sentences, queries, score, count)

    return find
