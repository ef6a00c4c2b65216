"""Sentences of a text in any language, by the rules of the library sentencex."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import sentencex

from rayner.data.schema import Document, Span
from rayner.data.words import are_in_order

PIECE = 5_000
"""Characters that are split at a time: the library's time grows with the square of what it is given."""
AROUND = 300

# What it defines is invisible to type checkers.
_LIBRARY: Any = sentencex
_PARAGRAPH = re.compile(r"(?:(?:\r\n?|\n)[^\S\r\n]*+){2,}+|\f+")
_LANGUAGE = re.compile(r"[A-Za-z]+")
# The library panics at some places with white space beyond ASCII, and takes no half of a surrogate pair.
_RARE_SPACE = re.compile(r"(?=[^\x00-\x7f])\s|[\x1c-\x1f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SPACE = re.compile(r"\s*+")


def sentences_of(document: Document) -> list[Span]:
    """The sentences of a document: its own where it has some, else those of its text.

    Sentences of its own that overlap or are not in order count as none.
    """
    if document.sentences and are_in_order(document.sentences):
        return list(document.sentences)
    return split_sentences(document.text, document.language)


def sentences_of_mentions(document: Document) -> list[str]:
    """The sentence in which each mention of a document begins, single-spaced; of a long one what is at most
    `AROUND` characters away from the mention."""
    spans = sentences_of(document) if document.mentions else []
    starts = [start for start, _ in spans]
    found = []
    for mention in document.mentions:
        place = bisect_right(starts, mention.start) - 1
        start, end = spans[place] if place >= 0 else (mention.start, mention.end)
        begin, stop = max(start, mention.start - AROUND), min(max(end, mention.end), mention.end + AROUND)
        found.append(" ".join(document.text[begin:stop].split()))
    return found


def split_sentences(text: str, language: str | None = None) -> list[Span]:
    """Spans of the sentences of a text, in order, without the white space around them.

    They hold every character that is not white space. A blank line ends a sentence; a quotation of several
    sentences is one.

    Args:
        language: a code such as `de` or `pt-BR`, for its abbreviations; None and unknown ones count as
            English, whose rules know the full stops of other scripts too.
    """
    code = _LANGUAGE.match(language or "")
    name = code.group().lower() if code else "en"
    safe = _SURROGATE.sub("\ufffd", _RARE_SPACE.sub(" ", text))
    return [
        span
        for begin, end in _paragraphs(safe)
        for start, after in _split(safe, begin, end, name)
        if (span := _trimmed(text, start, after))
    ]


def _paragraphs(text: str) -> Iterator[Span]:
    begin = 0
    for gap in _PARAGRAPH.finditer(text):
        if gap.start() > begin:
            yield begin, gap.start()
        begin = gap.end()
    if begin < len(text):
        yield begin, len(text)


def _split(text: str, begin: int, end: int, language: str) -> Iterator[Span]:
    """Sentences that cover a paragraph. The last of a piece may go on in the next, and is split again."""
    size = PIECE
    while begin < end:
        stop = min(begin + size, end)
        starts = [begin, *(begin + start for start in _starts(text[begin:stop], language)[1:])]
        if stop == end:
            yield from zip(starts, [*starts[1:], end], strict=True)
            return
        yield from pairwise(starts)
        size = PIECE if len(starts) > 1 else 2 * size
        begin = starts[-1]


def _starts(text: str, language: str) -> list[int]:
    """Where the sentences begin. A text at which the library panics is one sentence."""
    try:
        return [found["start_index"] for found in _LIBRARY.get_sentence_boundaries(language, text)]
    except BaseException as error:
        # It derives from BaseException, and would end a worker.
        if type(error).__name__ != "PanicException":
            raise
        return [0]


def _trimmed(text: str, start: int, end: int) -> Span | None:
    stripped = text[start:end].rstrip()
    first = _SPACE.match(stripped)
    lead = first.end() if first else 0
    return (start + lead, start + len(stripped)) if lead < len(stripped) else None
