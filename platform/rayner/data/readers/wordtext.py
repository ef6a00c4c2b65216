"""The text of a corpus that comes in words."""

from __future__ import annotations

from collections.abc import Sequence

from rayner.data.schema import Span


def join_words(sentences: Sequence[Sequence[str]]) -> tuple[str, tuple[Span, ...], tuple[Span, ...]]:
    """The text (a space between words, a line end between sentences), the words' and the sentences' spans."""
    words: list[Span] = []
    spans: list[Span] = []
    place = 0
    for sentence in sentences:
        first = place
        for word in sentence:
            words.append((place, place + len(word)))
            place += len(word) + 1
        spans.append((first, max(first, place - 1)))
    return "\n".join(" ".join(sentence) for sentence in sentences), tuple(words), tuple(spans)
