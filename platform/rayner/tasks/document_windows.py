"""Documents as windows of sub-words: what the recognizer and the tagger share."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rayner.config import WindowSettings
from rayner.data.schema import UNKNOWN, Context, Document, Mention, Span
from rayner.data.windows import SubWords, Tokenize, Window, cut, locate, owner, split_into_subwords
from rayner.data.words import words_of

SPECIAL_TOKENS = 2
"""[CLS] before and [SEP] after a window."""
_CLS = 1
_NOTHING = np.zeros(0, dtype=np.int32)


class Gold(NamedTuple):
    """A mention in sub-words of its document, both ends inclusive."""

    type: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class TextWindow:
    """One window of a document, ready for the encoder.

    A window's row is what the encoder reads between its first [CLS] and last [SEP]: sub-words of contexts
    before and a [SEP], the document's own sub-words `span`, a [SEP] and sub-words of contexts after. A
    *place* counts in the row, a *position* in what the model answers, where [CLS] is the first; nothing is
    decided about the places of contexts and of their [SEP]. `part` is the sentence that the window is of,
    where a document is read sentence by sentence.
    """

    subwords: SubWords
    windows: Sequence[Window]
    index: int
    before: np.ndarray = field(default_factory=lambda: _NOTHING)
    after: np.ndarray = field(default_factory=lambda: _NOTHING)
    part: Window | None = None

    @property
    def edges(self) -> Window:
        """The sub-words of the document that are read as one text: a sentence, or all."""
        return self.part or Window(0, len(self.subwords))

    @property
    def span(self) -> Window:
        """The window's own part of the document's sub-words."""
        return self.windows[self.index]

    def __len__(self) -> int:
        return len(self.before) + self.span.end - self.span.begin + len(self.after) + SPECIAL_TOKENS

    @property
    def ids(self) -> np.ndarray:
        """[T] the sub-words of the row."""
        begin, end = self.span
        if not len(self.before) and not len(self.after):
            return self.subwords.ids[begin:end]
        return np.concatenate([self.before, self.subwords.ids[begin:end], self.after])

    @property
    def row(self) -> dict[str, np.ndarray]:
        """Sub-word ids [T], and which of them are the first and the last of a word of the document [T]."""
        begin, end = self.span
        marks = {"first": self.subwords.is_first(begin, end), "last": self.subwords.is_last(begin, end)}
        around = len(self.before), len(self.after)
        if any(around):
            # Of nothing, it costs three times as much as all else here.
            marks = {name: np.pad(mark, around) for name, mark in marks.items()}
        return {"ids": self.ids, **marks}

    def place(self, subword: int) -> int:
        """Where a sub-word of the document is in the row."""
        return subword - self.span.begin + len(self.before)

    def position(self, subword: int) -> int:
        """Where the model answers for a sub-word of the document."""
        return self.place(subword) + _CLS

    def subword_at(self, position: int) -> int:
        """The sub-word of the document that the model answers for at a position."""
        return position - _CLS - len(self.before) + self.span.begin

    def decides(self, first: int, last: int) -> bool:
        """Whether it decides about the document's sub-words `first` to `last`: of all windows it shows most
        of what is around them."""
        if len(self.windows) == 1:
            return True
        return owner(self.windows, first, last + 1, self.edges.end, self.edges.begin) == self.index

    def within(self, spans: np.ndarray) -> np.ndarray:
        """Those parts of spans of sub-words [U, 2], both ends inclusive, that the window shows, in places."""
        begin, end = self.span
        shown = spans[(spans[:, 0] < end) & (spans[:, 1] >= begin)]
        return shown.clip(begin, end - 1) - begin + len(self.before)

    @property
    def words(self) -> np.ndarray:
        """The words of the document that start in the window."""
        begin, end = self.span
        return self.subwords.word_of[begin:end][self.subwords.is_first(begin, end)]

    @property
    def word_positions(self) -> np.ndarray:
        """Where the model answers for the first sub-word of each of `words`."""
        return self.subwords.first[self.words] - self.span.begin + len(self.before) + _CLS

    @property
    def shown_around(self) -> np.ndarray:
        """How many sub-words of the document the window shows on the narrower side of each of `words`; the
        edges of what is read as one text count as endless."""
        begin, end = self.span
        first = self.subwords.first[self.words]
        left = first - begin if begin > self.edges.begin else np.full(len(first), np.inf)
        right = end - first if end < self.edges.end else np.full(len(first), np.inf)
        return np.minimum(left, right)


def text_windows(
    document: Document, settings: WindowSettings, tokenize: Tokenize, unknown: int, separator: int
) -> list[TextWindow]:
    """The windows of a document; none where it has no word.

    Args:
        unknown: the sub-word of a word of which the tokenizer leaves nothing.
        separator: the one between contexts and the document; it is a part of their budget.
    """
    words = words_of(document, settings.words)
    if not words:
        return []
    subwords = split_into_subwords(document.text, words, tokenize, unknown)
    ids_of = cache(lambda text: tokenize(text)[0])
    parts = [(None, document.contexts)]
    if settings.context and document.sentence_contexts is not None:
        parts = _sentences(subwords, document.sentences or (), document.sentence_contexts)
    windows: list[Window] = []
    read: list[tuple[np.ndarray, np.ndarray, Window | None]] = []
    for part, contexts in parts:
        before, after = _contexts(contexts, settings.context, ids_of, separator)
        room = settings.length - SPECIAL_TOKENS - len(before) - len(after)
        of_part = cut(subwords, room, settings.overlap, part)
        windows += of_part
        read += [(before, after, part)] * len(of_part)
    return [TextWindow(subwords, windows, index, *rest) for index, rest in enumerate(read)]


def _sentences(
    subwords: SubWords, sentences: Sequence[Span], contexts: Sequence[Sequence[Context]]
) -> list[tuple[Window, Sequence[Context]]]:
    """The sub-words of each sentence that has a word, and its contexts.

    A word belongs to the sentence that it begins in, and one between two sentences to the one before it.
    """
    starts = [start for start, _ in subwords.words]
    first_words = [0, *(bisect_left(starts, start) for start, _ in sentences[1:]), len(starts)]
    places = [*subwords.first.tolist(), len(subwords)]
    edges = [places[word] for word in first_words]
    of_sentences = zip(pairwise(edges), contexts or [()], strict=True)
    return [(Window(*edge), own) for edge, own in of_sentences if edge[0] < edge[1]]


def _contexts(
    contexts: Sequence[Context], budget: int, ids_of: Callable[[str], list[int]], separator: int
) -> tuple[np.ndarray, np.ndarray]:
    """The sub-words of contexts before and after: of those that fit, the first by turn, else by score; of one
    that alone is too long, the part that is next to the document."""
    budget -= len({context.before for context in contexts})
    if budget <= 0 or not contexts:
        return _NOTHING, _NOTHING
    order = sorted(range(len(contexts)), key=lambda i: (contexts[i].turn or 0, -(contexts[i].score or 0.0)))
    taken: dict[int, list[int]] = {}
    for index in order:
        ids, left = ids_of(contexts[index].text), budget - sum(map(len, taken.values()))
        if len(ids) <= left:
            taken[index] = ids
        elif not taken:
            taken[index] = ids[-left:] if contexts[index].before else ids[:left]
    sides: dict[bool, list[int]] = {True: [], False: []}
    for index in sorted(taken):
        sides[contexts[index].before] += taken[index]
    before = [*sides[True], separator] if sides[True] else []
    after = [separator, *sides[False]] if sides[False] else []
    return np.array(before, dtype=np.int32), np.array(after, dtype=np.int32)


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
            if mention.type == UNKNOWN:
                continue
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


def unknown_spans(document: Document, subwords: SubWords) -> np.ndarray:
    """int64 [U, 2] the first and the last sub-word of each mention of type `UNKNOWN`."""
    marked = (m for m in document.mentions if m.type == UNKNOWN)
    found = (locate(subwords, m.start, m.end) for m in marked)
    return np.array([span[:2] for span in found if span is not None], np.int64).reshape(-1, 2)


def known_types(document: Document, type_index: Mapping[str, int]) -> np.ndarray | None:
    """The numbers of the types that a document was annotated for, in order; None for all of them."""
    if document.annotated_types is None:
        return None
    found = {type_index[name] for name in document.annotated_types if name in type_index}
    return np.array(sorted(found), np.int32)


def known_rows(known: Sequence[Sequence[int] | np.ndarray | None], types: int) -> np.ndarray:
    """Which types each of B documents was annotated for, from the numbers of these: [B, K] booleans."""
    rows = np.empty((len(known), types), bool)
    for row, numbers in zip(rows, known, strict=True):
        row[:] = numbers is None
        if numbers is not None:
            row[np.asarray(numbers, np.int64)] = True
    return rows


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
    """A predicted mention in positions of its window, both ends inclusive.

    `margin` is how far the score lies above its threshold.
    """

    type: int
    first: int
    last: int
    margin: float


def mentions_of(
    windows: Sequence[TextWindow],
    found: Sequence[Iterable[Found]],
    names: Sequence[str],
    score: Callable[[str, float], float],
) -> Iterator[Mention]:
    """The mentions found in a document, each as the window has it that shows most of its context.

    Args:
        score: of a mention, from its type and its margin.
    """
    for window, spans in zip(windows, found, strict=True):
        subwords = window.subwords
        for span in spans:
            first, last = window.subword_at(span.first), window.subword_at(span.last)
            if not window.decides(first, last):
                continue
            start = subwords.words[subwords.word_of[first]][0]
            end = subwords.words[subwords.word_of[last]][1]
            name = names[span.type]
            yield Mention(start, end, name, score=score(name, span.margin), margin=span.margin)


def confidence(margin: float) -> float:
    """The margin over the threshold as a number between 0 and 1; 0.5 at the threshold."""
    return 1 / (1 + math.exp(-min(max(margin, -60), 60)))
