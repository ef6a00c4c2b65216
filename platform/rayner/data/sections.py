"""Long documents in sections, so that what a text takes to work on does not grow with it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rayner.data.schema import Context, Document, Mention, Span
from rayner.data.words import are_in_order

SIZE = 2**18
"""Characters of a section: hundreds of windows, so that the two ends weigh little."""
OVERLAP = 2**13
"""Characters that a section shares with the next: what lies at their seam has windows on either side."""


class Section(NamedTuple):
    """Characters `begin` to `end` of a text."""

    begin: int
    end: int


def sections(text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[Section]:
    """Sections that cover a text; one for a text of up to `size` characters."""
    starts = range(0, max(1, len(text) - overlap), size - overlap)
    return [Section(start, min(start + size, len(text))) for start in starts]


def to_be_cut(document: Document) -> Document:
    """The document less words and sentences that overlap or are not in order, which count as none."""
    if not are_in_order(document.words or ()):
        document = replace(document, words=None)
    if not are_in_order(document.sentences or ()):
        document = replace(document, sentences=None, sentence_contexts=None)
    return document


def part_of(document: Document, section: Section) -> Document:
    """The section as a document: the text, and the words, sentences and mentions that lie whole in it.

    Args:
        document: one `to_be_cut`.
    """
    begin, end = section
    inside = (m for m in document.mentions if begin <= m.start and m.end <= end)
    return replace(
        document,
        text=document.text[begin:end],
        words=_spans(document.words, section),
        sentences=_spans(document.sentences, section),
        mentions=tuple(_moved(mention, -begin) for mention in inside),
        sentence_contexts=_contexts(document, section),
    )


def join_mentions(parts: Sequence[tuple[Section, Sequence[Mention]]]) -> tuple[Mention, ...]:
    """The mentions of a document, from those of its sections.

    Each seam lies within an overlap, where no mention of either side crosses it, as near to the middle as
    that can be: so mentions that do not overlap within the sections do not overlap in the document.
    """
    moved = [[_moved(m, section.begin) for m in mentions] for section, mentions in parts]
    seams = [0]
    for (left, _), (right, _), before, after in zip(parts, parts[1:], moved, moved[1:], strict=False):
        near = [m for m in (*before, *after) if m.end > right.begin and m.start < left.end]
        seams.append(_seam(right.begin, left.end, near))
    seams.append(parts[-1][0].end + 1)
    return tuple(
        mention
        for mentions, begin, end in zip(moved, seams, seams[1:], strict=False)
        for mention in mentions
        if begin <= mention.start < end
    )


def _seam(begin: int, end: int, mentions: Sequence[Mention]) -> int:
    middle = (begin + end) // 2
    edges = {p for m in mentions for p in (m.start, m.end) if begin < p < end}
    for place in sorted({middle, *edges}, key=lambda p: (abs(p - middle), p)):
        if not any(m.start < place < m.end for m in mentions):
            return place
    return middle


def _moved(mention: Mention, by: int) -> Mention:
    head = None if mention.head is None else (mention.head[0] + by, mention.head[1] + by)
    return replace(mention, start=mention.start + by, end=mention.end + by, head=head)


def _spans(spans: Sequence[Span] | None, section: Section) -> tuple[Span, ...] | None:
    if spans is None:
        return None
    inside = spans[_inside(spans, section)]
    return tuple((start - section.begin, end - section.begin) for start, end in inside)


def _contexts(document: Document, section: Section) -> tuple[tuple[Context, ...], ...] | None:
    if document.sentence_contexts is None:
        return None
    return document.sentence_contexts[_inside(document.sentences or (), section)]


def _inside(spans: Sequence[Span], section: Section) -> slice:
    first = bisect_left(spans, section.begin, key=lambda span: span[0])
    return slice(first, bisect_right(spans, section.end, key=lambda span: span[1]))
