"""Where contexts of a sentence may come from: its neighbours, sentences like it, any sentence.

`bm25` and `same_noun` have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from rayner.errors import CheckpointError, InputError
from rayner.retrieval.document_sentences import DocumentSentences, FoundContexts, Method, by_text

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts to vectors [N, D]."""


def before(sentences: DocumentSentences, queries: np.ndarray, count: int) -> FoundContexts:
    """The method `before`: the nearest sentences before. A score is one over the distance in sentences."""
    return _found(queries, _preceding(sentences.text_of, queries, count))


def after(sentences: DocumentSentences, queries: np.ndarray, count: int) -> FoundContexts:
    """The method `after`: the nearest sentences after. A score is one over the distance in sentences."""
    return _found(queries, _following(sentences.text_of, queries, count))


def surrounding(sentences: DocumentSentences, queries: np.ndarray, count: int) -> FoundContexts:
    """The method `surrounding`: the nearest sentences on both sides, of two as near the one before first.

    At an end of the document, those of the other side make up the number.
    """
    text_of = sentences.text_of
    left, right = (side(text_of, queries, count) for side in (_preceding, _following))
    nearest = []
    for query, *sides in zip(queries.tolist(), left, right, strict=True):
        both = sorted((place for side in sides for place in side), key=lambda p: (abs(p - query), p))
        chosen: dict[int, int] = {}
        for place in both:
            chosen.setdefault(int(text_of[place]), place)
        nearest.append(list(chosen.values())[:count])
    return _found(queries, nearest)


def random(seed: int = 0) -> Method:
    """The method `random`: other sentences, each as likely; what is drawn depends on no other query."""

    def find(sentences: DocumentSentences, queries: np.ndarray, count: int) -> FoundContexts:
        texts = len(sentences.first)
        drawn = []
        for query, own in zip(queries.tolist(), sentences.text_of[queries].tolist(), strict=True):
            size = min(count, texts - 1) if own >= 0 else 0
            chosen = np.random.default_rng((seed, query)).choice(max(texts - 1, 1), size, replace=False)
            drawn.append(sentences.first[chosen + (chosen >= own)].tolist())
        return _found(queries, drawn, scored=False)

    return find


def dense(encode: Encode) -> Method:
    """The method `dense`: sentences whose vectors have the largest cosines, by exact search.

    Raises:
        InputError: `encode` returns another number of vectors than it was given texts.
        CheckpointError: vectors that are not finite.
    """

    def find(sentences: DocumentSentences, queries: np.ndarray, count: int) -> FoundContexts:
        texts = [sentences.texts[int(place)] for place in sentences.first]
        if not texts:
            return _found(queries, [[] for _ in queries])
        vectors = np.asarray(encode(texts), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            what = f"{len(texts)} sentences were encoded as an array of shape {list(vectors.shape)}"
            raise InputError("method dense", what, "return one vector a text")
        if not np.isfinite(vectors).all():
            what = "its encoder gives vectors that are not finite"
            raise CheckpointError("method dense", what, "train it again, or name another")
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return by_text(sentences, queries, lambda asked: vectors[asked] @ vectors.T, count)

    return find


def _preceding(text_of: np.ndarray, queries: np.ndarray, count: int) -> list[list[int]]:
    """For each query the nearest `count` places before it with texts that differ, nearest first."""
    count = min(count, len(text_of))
    wanted: dict[int, list[int]] = {query: [] for query in queries.tolist()}
    latest: dict[int, int] = {}
    for place, own in enumerate(text_of.tolist()):
        if place in wanted and own >= 0:
            near = islice(reversed(latest.items()), count + 1)
            wanted[place] = [p for text, p in near if text != own][:count]
        if own >= 0:
            latest.pop(own, None)
            latest[own] = place
    return [wanted[query] for query in queries.tolist()]


def _following(text_of: np.ndarray, queries: np.ndarray, count: int) -> list[list[int]]:
    last = len(text_of) - 1
    mirrored = _preceding(text_of[::-1], last - queries, count)
    return [[last - place for place in places] for places in mirrored]


def _found(queries: np.ndarray, places: Sequence[Sequence[int]], scored: bool = True) -> FoundContexts:
    sentence = np.repeat(queries, [len(of_one) for of_one in places])
    context = np.array([place for of_one in places for place in of_one], dtype=np.int64)
    return FoundContexts(
        sentence, context, 1 / np.abs(context - sentence) if scored else np.zeros(len(context))
    )
