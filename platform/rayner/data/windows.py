"""Cutting a text into windows that fit the encoder, with an exact way back to characters."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rayner.data.schema import Span

Tokenize = Callable[[str], tuple[list[int], list[Span]]]
"""A text to its sub-word ids (no special tokens) and their spans in the text."""


@dataclass(frozen=True, slots=True)
class SubWords:
    """The sub-words of a text, none of which crosses a word boundary, each of which belongs to a word.

    Attributes:
        ids: [T] vocabulary ids.
        word_of: [T] index of the sub-word's word.
        first: [W] position of each word's first sub-word.
        last: [W] position of each word's last sub-word.
        words: the W words' spans in the text.
    """

    ids: np.ndarray
    word_of: np.ndarray
    first: np.ndarray
    last: np.ndarray
    words: Sequence[Span]

    def __len__(self) -> int:
        return len(self.ids)

    def is_first(self, begin: int, end: int) -> np.ndarray:
        """Which of the positions `begin` to `end` start a word."""
        positions = np.arange(begin, end)
        return self.first[self.word_of[begin:end]] == positions

    def is_last(self, begin: int, end: int) -> np.ndarray:
        """Which of the positions `begin` to `end` end a word."""
        positions = np.arange(begin, end)
        return self.last[self.word_of[begin:end]] == positions


class Window(NamedTuple):
    """Sub-words `begin` to `end` of a text."""

    begin: int
    end: int


def split_into_subwords(text: str, words: Sequence[Span], tokenize: Tokenize, unknown: int) -> SubWords:
    """Sub-words of the words of a text.

    The text is tokenized whole, so that each word is spelled as the encoder saw it in pre-training. Where a
    sub-word covers parts of several words, those words are tokenized one by one. A word of which the
    tokenizer leaves nothing becomes `unknown`: it can still be a part of a mention.
    """
    tokens, spans = tokenize(text)
    word_of, shared = _assign(spans, words)
    kept = word_of >= 0
    again = [(index, text[slice(*words[index])]) for index in shared]
    spelled = {spelling: tokenize(spelling)[0] for spelling in {spelling for _, spelling in again}}
    new = np.array([token for _, spelling in again for token in spelled[spelling]], dtype=np.int64)
    ids = np.concatenate([np.array(tokens, dtype=np.int64)[kept], new])
    word_of = np.concatenate([word_of[kept], np.repeat(shared, [len(spelled[s]) for _, s in again])])
    bare = np.flatnonzero(np.bincount(word_of, minlength=len(words)) == 0)
    word_of = np.concatenate([word_of, bare])
    order = np.argsort(word_of, kind="stable")
    counts = np.bincount(word_of, minlength=len(words))
    last = np.cumsum(counts) - 1
    return SubWords(
        ids=np.concatenate([ids, np.full(len(bare), unknown)])[order].astype(np.int32),
        word_of=word_of[order].astype(np.int32),
        first=last - counts + 1,
        last=last,
        words=words,
    )


def _assign(spans: Sequence[Span], words: Sequence[Span]) -> tuple[np.ndarray, np.ndarray]:
    """The word of each sub-word, -1 outside words and in those that share a sub-word; and which do."""
    of_words = np.array(words, dtype=np.int64).reshape(-1, 2)
    starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    first = np.searchsorted(of_words[:, 1], starts, side="right")
    after = np.searchsorted(of_words[:, 0], np.maximum(ends, starts + 1), side="left")
    edges = np.zeros(len(words) + 1, dtype=np.int64)
    several = after - first > 1
    np.add.at(edges, first[several], 1)
    np.add.at(edges, after[several], -1)
    is_shared = np.cumsum(edges) > 0
    return np.where((first < after) & ~is_shared[first], first, -1), np.flatnonzero(is_shared)


def cut(subwords: SubWords, length: int, overlap: int, part: Window | None = None) -> list[Window]:
    """Windows of at most `length` sub-words that cover a text, or a part of whole words of it.

    Any run of at most `overlap + 1` sub-words lies whole in some window. Windows begin and end between words,
    except within a word that is longer than what a window adds to the one before.

    Args:
        length: sub-words a window, without special tokens; more than `overlap`.
        overlap: sub-words that a window shares with the next, at least.
    """
    if overlap >= length:
        raise ValueError(f"overlap {overlap} must be below length {length}")
    windows, (begin, total) = [], part or (0, len(subwords))
    while total - begin > length:
        end = begin + length
        word_begin = int(subwords.first[subwords.word_of[end]])
        if word_begin - overlap > begin:
            end = word_begin
        windows.append(Window(begin, end))
        following = end - overlap
        word_begin = int(subwords.first[subwords.word_of[following]])
        begin = word_begin if word_begin > begin else following
    windows.append(Window(begin, total))
    return windows


def owner(windows: Sequence[Window], start: int, end: int, total: int, begin: int = 0) -> int | None:
    """The window that decides about sub-words `start` to `end`: the one that shows most context around them.

    The edges of what is read as one text, `begin` and `total`, count as endless context. None if no window
    holds them whole.
    """
    best, best_context = None, -1.0
    for index in range(bisect_right(windows, start, key=lambda w: w.begin) - 1, -1, -1):
        window = windows[index]
        if window.end < end:
            break
        left = float("inf") if window.begin == begin else start - window.begin
        right = float("inf") if window.end == total else window.end - end
        if min(left, right) >= best_context:
            best, best_context = index, min(left, right)
    return best


def locate(subwords: SubWords, start: int, end: int) -> tuple[int, int, bool] | None:
    """The sub-words of the characters `start` to `end`: (first, last, exact), snapped outward to whole words.

    `exact` is false where the characters begin or end inside a word. None where they touch no word.
    """
    words = subwords.words
    low = bisect_right(words, start, key=lambda w: w[1])
    high = bisect_left(words, end, key=lambda w: w[0]) - 1
    if low > high:
        return None
    exact = words[low][0] == start and words[high][1] == end
    return int(subwords.first[low]), int(subwords.last[high]), exact
