"""Contexts that share a noun: as many as are asked for, drawn as from a list of all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.retrieval import same_noun as module
from rayner.retrieval.document_sentences import DocumentSentences
from rayner.retrieval.same_noun import same_noun

Pairs = dict[int, list[tuple[int, float]]]


def capitalized(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[word for word in words if word[0].isupper()] for words in sentences]


def found_in(texts: Sequence[str], queries: Sequence[int], count: int, seed: int) -> Pairs:
    sentences = DocumentSentences(texts, [text.split() for text in texts])
    found = same_noun(capitalized, seed)(sentences, np.array(queries, dtype=np.int64), count)
    pairs: Pairs = {query: [] for query in queries}
    for query, context, score in zip(*(column.tolist() for column in found), strict=True):
        pairs[query].append((context, score))
    return pairs


def by_definition(texts: Sequence[str], queries: Sequence[int], count: int, seed: int) -> Pairs:
    first = {text: texts.index(text) for text in texts if text}
    nouns = {text: {word for word in text.split() if word[0].isupper()} for text in first}
    pairs: Pairs = {}
    for query in queries:
        own = nouns.get(texts[query], set())
        others = [text for text in first if text != texts[query] and own & nouns[text]]
        if len(others) > count:
            drawn = np.random.default_rng((seed, first[texts[query]]))
            others = [others[i] for i in drawn.choice(len(others), count, replace=False)]
        scored = [(first[text], float(len(own & nouns[text]))) for text in others]
        pairs[query] = sorted(scored, key=lambda pair: (-pair[1], pair[0]))
    return pairs


words = st.lists(st.sampled_from(["A", "B", "C", "D", "E", "a", "b"]), max_size=5).map(" ".join)


@given(
    st.lists(words, max_size=30), st.integers(1, 9), st.integers(0, 3), st.sampled_from([1, 3, 99]), st.data()
)
def test_they_are_those_of_the_list_of_all(
    texts: list[str], count: int, seed: int, frequent: int, data: st.DataObject
) -> None:
    queries = data.draw(st.lists(st.sampled_from(range(len(texts))), unique=True) if texts else st.just([]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FREQUENT", frequent)
        assert found_in(texts, queries, count, seed) == by_definition(texts, queries, count, seed)


def test_a_noun_of_most_sentences_makes_it_no_slower() -> None:
    texts = [f"{number} A{'' if number % 5 else ' B'} C{number % 50}" for number in range(12_000)]
    began = time.process_time()
    found = found_in(texts, range(len(texts)), 4, 0)
    assert time.process_time() - began < 8
    assert {len(contexts) for contexts in found.values()} == {4}
