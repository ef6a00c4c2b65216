"""Contexts that share a noun with the sentence (Amalvy et al. 2023, `samenoun`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rayner.retrieval.bm25 import count_words
from rayner.retrieval.document_sentences import DocumentSentences, FoundContexts, Method, of_texts

Tagger = Callable[[Sequence[Sequence[str]]], list[list[str]]]
"""The words of a document's sentences to the nouns of each sentence, as written or as lemmas."""

FREQUENT = 128
"""Texts with a noun from which on those with it are listed once for all texts of the same such nouns."""


def same_noun(nouns: Tagger, seed: int = 0, *, case: bool = True) -> Method:
    """The method `same_noun`: sentences with a noun in common, drawn at random where there are more.

    A score is the number of nouns in common. What is drawn for a sentence depends on no other query.

    Args:
        case: whether nouns that differ in case differ.
    """

    def find(sentences: DocumentSentences, queries: np.ndarray, count: int) -> FoundContexts:
        having: Any = count_words(nouns(sentences.words), case)[sentences.first]
        having.sort_indices()
        sets = [frozenset(having.indices[b:e].tolist()) for b, e in _rows(having)]
        texts = np.unique(sentences.text_of[queries])
        drawn: dict[int, list[tuple[int, int]]] = {}
        for text, others in _sharing(having, texts[texts >= 0], count, seed, sentences.first):
            common = ((len(sets[text] & sets[other]), other) for other in others.tolist())
            drawn[text] = sorted(common, key=lambda pair: (-pair[0], pair[1]))
        pairs = [(text, other, shared) for text in sorted(drawn) for shared, other in drawn[text]]
        text, other, shared = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
        return of_texts(sentences, queries, text, other, shared.astype(np.float32))

    return find


def _sharing(
    having: Any, texts: np.ndarray, count: int, seed: int, first: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Texts, in any order, with up to `count` others each that share a noun, drawn where there are more."""
    listed: Any = having.T.tocsr()
    having_noun = [listed.indices[b:e] for b, e in _rows(listed)]
    is_frequent = np.diff(listed.indptr) >= FREQUENT
    groups: dict[tuple[int, ...], list[tuple[int, np.ndarray]]] = {}
    for text in texts.tolist():
        own = having.indices[having.indptr[text] : having.indptr[text + 1]]
        often = is_frequent[own]
        groups.setdefault(tuple(own[often].tolist()), []).append((text, own[~often]))
    for nouns, members in groups.items():
        # Most texts of a book may have one of these.
        is_of_all = np.zeros(having.shape[0], dtype=bool)
        for noun in nouns:
            is_of_all[having_noun[noun]] = True
        of_all = np.flatnonzero(is_of_all)
        for text, rare in members:
            more = np.unique(np.concatenate([of_all[:0], *(having_noun[noun] for noun in rare)]))
            union = _Union(of_all, more[~is_of_all[more]])
            # Those with a noun are among those that have it themselves.
            if (others := len(union) - 1) > 0:
                chosen = np.arange(others)
                if others > count:
                    rng = np.random.default_rng((seed, int(first[text])))
                    chosen = rng.choice(others, count, replace=False)
                yield text, union[chosen + (chosen >= union.place(text))]


class _Union:
    """Two ascending arrays without a common number, as one ascending array that is never written out."""

    def __init__(self, many: np.ndarray, few: np.ndarray) -> None:
        self._many, self._few = many, few
        self._places = np.searchsorted(many, few) + np.arange(len(few))

    def __len__(self) -> int:
        return len(self._many) + len(self._few)

    def __getitem__(self, places: np.ndarray) -> np.ndarray:
        before = np.searchsorted(self._places, places)
        is_few = np.isin(places, self._places)
        found = np.empty(len(places), dtype=np.int64)
        found[is_few] = self._few[before[is_few]]
        found[~is_few] = self._many[(places - before)[~is_few]]
        return found

    def place(self, number: int) -> int:
        """Where a number of it is."""
        return int(np.searchsorted(self._many, number) + np.searchsorted(self._few, number))


def _rows(matrix: Any) -> Iterator[tuple[int, int]]:
    return zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True)
