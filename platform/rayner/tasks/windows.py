"""Documents as windows of sub-words: what the recognizer and the tagger share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rayner.config import WindowSettings
from rayner.data.schema import Document, Mention
from rayner.data.windows import SubWords, Tokenize, Window, cut, locate, owner, split_into_subwords
from rayner.data.words import words_of

SPECIAL_TOKENS = 2
"""[CLS] before and [SEP] after a window."""


class Gold(NamedTuple):
    """A mention in sub-words of its document, both ends inclusive."""

    type: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class TextWindow:
    """One window of a document, ready for the encoder."""

    subwords: SubWords
    windows: Sequence[Window]
    index: int

    @property
    def span(self) -> Window:
        """The window's place in the document's sub-words."""
        return self.windows[self.index]

    def __len__(self) -> int:
        return self.span.end - self.span.begin + SPECIAL_TOKENS

    @property
    def row(self) -> dict[str, np.ndarray]:
        """Sub-word ids [T], and which of them are a word's first and last [T]."""
        begin, end = self.span
        return {
            "ids": self.subwords.ids[begin:end],
            "first": self.subwords.is_first(begin, end),
            "last": self.subwords.is_last(begin, end),
        }


def text_windows(
    document: Document, settings: WindowSettings, tokenize: Tokenize, unknown: int
) -> list[TextWindow]:
    """The windows of a document; none where it has no word."""
    words = words_of(document, settings.words)
    if not words:
        return []
    subwords = split_into_subwords(document.text, words, tokenize, unknown)
    windows = cut(subwords, settings.length - SPECIAL_TOKENS, settings.overlap)
    return [TextWindow(subwords, windows, index) for index in range(len(windows))]


def gold_of(
    document: Document, subwords: SubWords, type_index: dict[str, int], max_width: int | None
) -> tuple[list[Gold], list[str]]:
    """A document's mentions in sub-words, by start, each once; a line for each left out, moved or too wide.

    Those wider than `max_width` are among the mentions: a model has no cell for them, but they are no
    negatives.
    """
    gold: set[Gold] = set()
    rejects = []
    for mention in document.mentions:
        place = f"{document.document_id}: {mention.type} at {mention.start}-{mention.end}"
        found = locate(subwords, mention.start, mention.end)
        if mention.type not in type_index:
            rejects.append(f"{place}: the recipe has no such type")
        elif found is None:
            rejects.append(f"{place}: holds no word")
        else:
            if max_width is not None and found[1] - found[0] >= max_width:
                width = found[1] - found[0] + 1
                rejects.append(f"{place}: {width} sub-words, over max_span_width {max_width}")
            elif not found[2]:
                rejects.append(f"{place}: moved outward to whole words")
            gold.add(Gold(type_index[mention.type], found[0], found[1]))
    return sorted(gold, key=lambda g: (g.first, g.last, g.type)), rejects


def known_types(document: Document, names: Sequence[str]) -> np.ndarray:
    """Which types a document was annotated for: [K] booleans."""
    if document.annotated_types is None:
        return np.ones(len(names), dtype=bool)
    return np.isin(names, document.annotated_types)


def pad(rows: Sequence[np.ndarray], width: int, value: int | bool, shift: int = 0) -> np.ndarray:
    """Rows of unequal length as [B, width], each from column `shift` on, `value` elsewhere."""
    out = np.full((len(rows), width), value, dtype=np.int64 if not isinstance(value, bool) else bool)
    for index, row in enumerate(rows):
        out[index, shift : shift + len(row)] = row
    return out


def with_special_tokens(rows: Sequence[np.ndarray], cls: int, sep: int, padding: int) -> np.ndarray:
    """[CLS] row [SEP], padded: [B, longest + 2] ids."""
    ids = pad(rows, max(len(row) for row in rows) + SPECIAL_TOKENS, padding, shift=1)
    ids[:, 0] = cls
    ids[np.arange(len(rows)), [len(row) + 1 for row in rows]] = sep
    return ids


class Found(NamedTuple):
    """A predicted mention in sub-words of its window, both ends inclusive.

    `margin` is how far the score lies above its threshold.
    """

    type: int
    first: int
    last: int
    margin: float


def mentions_of(
    windows: Sequence[TextWindow], found: Sequence[Iterable[Found]], names: Sequence[str]
) -> Iterator[Mention]:
    """The mentions found in a document, each as the window has it that shows most of its context."""
    for window, spans in zip(windows, found, strict=True):
        subwords, begin = window.subwords, window.span.begin
        for span in spans:
            first, last = begin + span.first, begin + span.last
            if owner(window.windows, first, last + 1, len(subwords)) != window.index:
                continue
            start = subwords.words[subwords.word_of[first]][0]
            end = subwords.words[subwords.word_of[last]][1]
            yield Mention(start, end, names[span.type], score=confidence(span.margin), margin=span.margin)


def confidence(margin: float) -> float:
    """The margin over the threshold as a number between 0 and 1; 0.5 at the threshold."""
    return 1 / (1 + math.exp(-min(max(margin, -60), 60)))


def without_overlaps(mentions: Iterable[Mention]) -> list[Mention]:
    """The mentions furthest above their thresholds of which no two overlap, across types (papers/000,
    algorithm 1, removeOverlap)."""
    kept: list[Mention] = []
    taken: set[int] = set()
    for mention in sorted(mentions, key=lambda m: (-(m.margin or 0.0), m.start, m.end)):
        if taken.isdisjoint(range(mention.start, mention.end)):
            kept.append(mention)
            taken.update(range(mention.start, mention.end))
    return sorted(kept, key=lambda m: (m.start, m.end))
