"""BM25: the scores of the formula, read slowly, and the same ranking."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.retrieval.bm25 import bm25
from rayner.retrieval.contexts import find_contexts
from rayner.retrieval.document_sentences import DocumentSentences

words = st.sampled_from(["whale", "Whale", "sea", "the", "the", "the", "ship", "Ahab", "."])
documents = st.lists(st.lists(words, max_size=6), max_size=12)


def slow_scores(sentences: list[list[str]], query: int) -> list[float]:
    """BM25Okapi as its authors describe it, one word of one sentence at a time."""
    k1, b, epsilon = 1.5, 0.75, 0.25
    total = len(sentences)
    mean = sum(len(s) for s in sentences) / total
    idf = {}
    for word in {w for s in sentences for w in s}:
        having = sum(word in s for s in sentences)
        idf[word] = math.log((total - having + 0.5) / (having + 0.5))
    floor = epsilon * sum(idf.values()) / max(len(idf), 1)
    scores = []
    for sentence in sentences:
        score = 0.0
        for word in sentences[query]:
            count = sentence.count(word)
            weight = idf[word] if idf[word] >= 0 else floor
            score += weight * count * (k1 + 1) / (count + k1 * (1 - b + b * len(sentence) / max(mean, 1e-9)))
        scores.append(score)
    return scores


@given(documents, st.integers(1, 14))
def test_the_ranking_is_that_of_the_formula(document: list[list[str]], count: int) -> None:
    texts = [" ".join(sentence) for sentence in document]
    sentences = DocumentSentences(texts, document)
    found = find_contexts(sentences, {"bm25": bm25()}, count)
    for query, candidates in enumerate(found):
        scores = slow_scores(document, query)
        others = {text: place for place, text in reversed(list(enumerate(texts))) if text != texts[query]}
        best = sorted((scores[place] for place in others.values() if scores[place] > 1e-9), reverse=True)
        # A query without words has no score above zero.
        np.testing.assert_allclose([c.score for c in candidates], best[:count], rtol=1e-5)
        for candidate in candidates:
            assert candidate.score == pytest.approx(scores[candidate.sentence], rel=1e-5)
            assert others[texts[candidate.sentence]] == candidate.sentence, "the first with that text"
        pairs = [(-c.score, c.sentence) for c in candidates]
        assert pairs == sorted(pairs), "of equal scores the earlier sentence first"


def test_a_word_in_most_sentences_still_counts_a_little() -> None:
    texts = ["the cat sat", "the dog ran", "the whale sang", "a bird flew", "no fish swam"]
    of_first, *_ = find_contexts(DocumentSentences(texts), {"bm25": bm25()}, 5)
    assert [c.sentence for c in of_first] == [1, 2]
    none, *_ = find_contexts(DocumentSentences(texts), {"bm25": bm25(epsilon=0)}, 5)
    assert none == []


def test_case_may_be_ignored() -> None:
    texts = ["Whale ahead", "the whale sang", "a bird flew", "no fish swam", "it rained"]
    assert find_contexts(DocumentSentences(texts), {"bm25": bm25()}, 2, [0]) == [[]]
    (found,) = find_contexts(DocumentSentences(texts), {"bm25": bm25(case=False)}, 2, [0])
    assert [c.sentence for c in found] == [1]
