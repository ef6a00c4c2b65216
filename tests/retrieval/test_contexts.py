"""Candidate contexts: never the sentence itself, no text twice, the same again, by every method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.errors import InputError
from rayner.retrieval.contexts import (
    PAPER_METHODS,
    Candidate,
    context_methods,
    find_contexts,
)
from rayner.retrieval.document_sentences import DocumentSentences, largest

METHODS = ("before", "after", "surrounding", "bm25", "same_noun", "dense", "random")

sentence_texts = st.lists(
    st.sampled_from(
        ["Ahab ran.", "The whale sang.", "The  whale\nsang.", "A whale ran to Ahab.", "", " ", "x"]
    )
    | st.text(alphabet="ab .é", max_size=5),
    max_size=14,
)


def encode(texts: Sequence[str]) -> np.ndarray:
    """How often a text has each of a few letters."""
    return np.array([[text.count(letter) for letter in "aehlns."] for text in texts], dtype=np.float64)


def numbers(candidates: Sequence[Candidate]) -> list[int]:
    return [candidate.sentence for candidate in candidates]


def spelled(text: str) -> str:
    return " ".join(text.split())


def test_more_candidates_than_a_machine_can_count() -> None:
    sentences = DocumentSentences(["Ahab ran.", "It rained.", "Ahab sang."])
    for name in METHODS:
        methods = context_methods([name], encode=encode)
        assert find_contexts(sentences, methods, 10**20) == find_contexts(sentences, methods, 3)


@given(sentence_texts, st.integers(1, 20), st.integers(0, 5))
def test_candidates_of_every_method(texts: list[str], count: int, seed: int) -> None:
    sentences = DocumentSentences(texts)
    distinct = {spelled(text) for text in texts} - {""}
    for name in METHODS:
        methods = context_methods([name], seed=seed, encode=encode)
        found = find_contexts(sentences, methods, count)
        assert found == find_contexts(DocumentSentences(texts), methods, count), "the same again"
        for query, candidates in enumerate(found):
            contexts = [spelled(texts[c.sentence]) for c in candidates]
            assert len(set(contexts)) == len(contexts) <= count
            assert not {spelled(texts[query]), ""} & set(contexts)
            assert {c.method for c in candidates} <= {name}
            scores = [c.score for c in candidates]
            assert scores == sorted(scores, reverse=True)
            if name in ("surrounding", "random", "dense") and spelled(texts[query]):
                assert len(candidates) == min(count, len(distinct) - 1), "k may exceed the document"


@given(sentence_texts, st.integers(1, 5), st.data())
def test_some_sentences_have_the_candidates_that_they_have_among_all(
    texts: list[str], count: int, data: st.DataObject
) -> None:
    sentences = DocumentSentences(texts)
    methods = context_methods(METHODS, encode=encode)
    everything = find_contexts(sentences, methods, count)
    queries = data.draw(st.lists(st.sampled_from(range(len(texts))), max_size=5)) if texts else []
    for query, found in zip(queries, find_contexts(sentences, methods, count, queries), strict=True):
        assert numbers(found) == numbers(everything[query])
        assert [c.score for c in found] == pytest.approx([c.score for c in everything[query]])


@given(sentence_texts, st.integers(1, 20))
def test_neighbours_are_the_nearest_that_differ(texts: list[str], count: int) -> None:
    spellings = [spelled(text) for text in texts]

    def slow(query: int, places: Sequence[int]) -> list[int]:
        taken: dict[str, int] = {}
        for place in places:
            if spellings[place] not in ("", spellings[query]):
                taken.setdefault(spellings[place], place)
        return list(taken.values())[:count]

    sentences = DocumentSentences(texts)
    before, after, around = (
        find_contexts(sentences, context_methods([name]), count)
        for name in ("before", "after", "surrounding")
    )
    for query in range(len(texts)):
        back, forth = range(query - 1, -1, -1), range(query + 1, len(texts))
        both = sorted((*back, *forth), key=lambda p: (abs(p - query), p))
        for found, places in ((before, back), (after, forth), (around, both)):
            assert numbers(found[query]) == (slow(query, places) if spellings[query] else [])


def test_dense_finds_the_largest_cosines() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 8))
    texts = [f"number {place}" for place in range(300)]
    methods = context_methods(["dense"], encode=lambda _: vectors)
    found = find_contexts(DocumentSentences(texts), methods, 5)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    for query, candidates in enumerate(found):
        np.testing.assert_allclose([c.score for c in candidates], np.sort(cosines[query])[:-6:-1], rtol=1e-4)


@pytest.mark.parametrize("vectors", [np.ones((2, 3)), np.ones(3), np.full((3, 2), np.nan)])
def test_vectors_that_are_none_are_named(vectors: np.ndarray) -> None:
    methods = context_methods(["dense"], encode=lambda _: vectors)
    with pytest.raises(InputError, match="method dense"):
        find_contexts(DocumentSentences(["a", "b", "c"]), methods, 1)


def test_same_noun_draws_among_those_that_share_one() -> None:
    texts = [
        "Ahab saw a whale.",
        *(f"The whale was {n} miles off." for n in range(30)),
        "Ahab slept.",
        "So be it.",
    ]
    drawn = [
        find_contexts(DocumentSentences(texts), context_methods(["same_noun"], seed=seed), 5, [0])[0]
        for seed in range(40)
    ]
    assert {len(found) for found in drawn} == {5}
    everywhere = Counter(place for found in drawn for place in numbers(found))
    assert set(everywhere) <= set(range(1, 32))
    assert len(everywhere) > 25, "other seeds draw others"
    (found,) = find_contexts(DocumentSentences(texts), context_methods(["same_noun"]), 50, [0])
    assert sorted(numbers(found)) == list(range(1, 32))


def test_random_draws_every_other_sentence_as_often() -> None:
    sentences = DocumentSentences([f"number {place}" for place in range(6)])
    drawn = Counter(
        place
        for seed in range(300)
        for place in numbers(find_contexts(sentences, context_methods(["random"], seed=seed), 2, [2])[0])
    )
    assert set(drawn) == {0, 1, 3, 4, 5}
    assert all(80 < times < 160 for times in drawn.values()), "600 draws of 5 sentences"


def test_where_methods_find_the_same_text_the_first_keeps_it() -> None:
    texts = ["A whale sang.", "Ahab saw the whale.", "It rained.", "Ahab saw  the whale.", "The whale slept."]
    (found,) = find_contexts(DocumentSentences(texts), context_methods(("before", "bm25")), 2, [4])
    assert [(c.sentence, c.method) for c in found] == [(3, "before"), (2, "before"), (0, "bm25")]


def test_the_same_sentence_many_times_has_no_context() -> None:
    sentences = DocumentSentences(["The cat sat on the mat."] * 10_000)
    found = find_contexts(sentences, context_methods(METHODS, encode=encode), 8)
    assert len(found) == 10_000
    assert not any(found)


def test_a_document_without_sentences_has_no_contexts() -> None:
    assert find_contexts(DocumentSentences([]), context_methods(), 4) == []


@pytest.mark.parametrize(
    ("names", "count", "queries", "message"),
    [
        (["best"], 1, None, "method best: is not known"),
        (["dense"], 1, None, "method dense: has no encoder"),
        (["before"], 0, None, "0 candidates"),
        (["before"], 1, [2], "outside the 2 sentences"),
        (["before"], 1, [-1], "outside the 2 sentences"),
    ],
)
def test_what_cannot_be_asked(names: list[str], count: int, queries: list[int] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_contexts(DocumentSentences(["a", "b"]), context_methods(names), count, queries)


@given(
    st.integers(1, 5), st.lists(st.lists(st.sampled_from([-np.inf, 0.0, 1.0, 2.0]), min_size=4, max_size=4))
)
def test_the_largest_of_a_row(count: int, rows: list[list[float]]) -> None:
    scores = np.array(rows).reshape(-1, 4)
    row, column = largest(scores, count)
    expected = [
        (number, place)
        for number, of_row in enumerate(rows)
        for place in sorted((p for p in range(4) if of_row[p] > -np.inf), key=lambda p: (-of_row[p], p))[
            :count
        ]
    ]
    assert list(zip(row.tolist(), column.tolist(), strict=True)) == expected


def test_the_methods_of_the_paper_are_four() -> None:
    assert tuple(context_methods()) == PAPER_METHODS
