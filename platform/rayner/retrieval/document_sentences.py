"""The sentences of one document, as the methods that retrieve contexts read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rayner.data.words import find_words

SCORES = 2**22
"""Scores that are in memory at a time."""


class DocumentSentences:
    """S sentences, and which of them have the same text.

    Sentences with the same words between white space count as one text: contexts repeat no text. Blank
    sentences have none, and neither have contexts nor are any.

    Args:
        texts: of all sentences, in the order of the document.
        words: of all sentences; None finds them.
    """

    def __init__(self, texts: Sequence[str], words: Sequence[Sequence[str]] | None = None) -> None:
        self.texts = texts
        self.words = [_words(text) for text in texts] if words is None else words
        numbers: dict[str, int] = {}
        spelled = (" ".join(text.split()) for text in texts)
        found = [numbers.setdefault(text, len(numbers)) if text else -1 for text in spelled]
        self.text_of = np.array(found, dtype=np.int64)
        """[S] the number of each sentence's text, ascending by first occurrence; -1 for blank ones."""
        kept, first = np.unique(self.text_of, return_index=True)
        self.first = first[kept >= 0]
        """[U] the first sentence with each text."""

    def __len__(self) -> int:
        return len(self.texts)


class FoundContexts(NamedTuple):
    """Pairs [P] of a sentence and another that may be its context, with scores, higher is better.

    The pairs of a sentence are together, best first.
    """

    sentence: np.ndarray
    context: np.ndarray
    score: np.ndarray


Method = Callable[[DocumentSentences, np.ndarray, int], FoundContexts]
"""Up to so many contexts for each of the sentences [Q], none with the text of the sentence or of another."""


def largest(scores: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of up to `count` largest scores of each row [R, C], best first, -inf never.

    Of equal scores the lower column comes first.
    """
    columns = scores.shape[1]
    kept = scores > -np.inf
    if count < columns:
        at = columns - count
        last = np.partition(scores, at, axis=1)[:, at, None]
        above, equal = scores > last, kept & (scores == last)
        # Of sentences that are much alike, most pairs may have the same score.
        left = count - above.sum(axis=1, keepdims=True)
        kept = above | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= left))
    row, column = np.nonzero(kept)
    order = np.lexsort((column, -scores[row, column], row))
    return row[order], column[order]


def blocks(total: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover `total` rows."""
    return (slice(begin, min(begin + size, total)) for begin in range(0, total, size))


def by_text(
    sentences: DocumentSentences,
    queries: np.ndarray,
    score: Callable[[np.ndarray], np.ndarray],
    count: int,
) -> FoundContexts:
    """The texts with the highest scores, for the text of each query.

    Args:
        score: numbers of texts [B] to their scores [B, U] for all texts, -inf for what is no context.
    """
    texts = np.unique(sentences.text_of[queries])
    texts = texts[texts >= 0]
    found = []
    for block in blocks(len(texts), max(1, SCORES // max(1, len(sentences.first)))):
        chosen = texts[block]
        of_block = score(chosen)
        of_block[np.arange(len(chosen)), chosen] = -np.inf
        row, column = largest(of_block, count)
        found.append((chosen[row], column, of_block[row, column]))
    if not found:
        return FoundContexts(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    text, other, scores = (np.concatenate(column) for column in zip(*found, strict=True))
    return of_texts(sentences, queries, text, other, scores)


def of_texts(
    sentences: DocumentSentences, queries: np.ndarray, text: np.ndarray, other: np.ndarray, score: np.ndarray
) -> FoundContexts:
    """The contexts of queries, from the pairs [P] of their texts and others, by numbers of texts.

    Args:
        text: ascending, and the pairs of a text best first.
    """
    asked = sentences.text_of[queries]
    begins = np.searchsorted(text, asked)
    counts = np.searchsorted(text, asked, side="right") - begins
    ends = np.cumsum(counts)
    pair = np.arange(counts.sum()) + np.repeat(begins - (ends - counts), counts)
    return FoundContexts(np.repeat(queries, counts), sentences.first[other[pair]], score[pair])


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in find_words(text)]
