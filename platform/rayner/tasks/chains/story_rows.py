"""Documents with coreference chains as rows: windows, and where their mentions are in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rayner.data.schema import Document, chained, story_of
from rayner.data.string_hashes import number_of
from rayner.data.windows import SubWords, locate, owner
from rayner.supervision.heads import head_of
from rayner.tasks.document_windows import SPECIAL_TOKENS, TextWindow


class Place(NamedTuple):
    """A mention in sub-words of its document, all ends inclusive."""

    chain: int
    head: tuple[int, int]
    span: tuple[int, int]


def rows(document: Document, windows: Sequence[TextWindow]) -> Iterator[dict[str, Any]]:
    """A row for each window of a document.

    Each mention is in the row of the window that shows most of what is around its head. `head` and `span` are
    places in the row, [M, 2] flattened, both ends inclusive; of a span that its window cuts, the part in it.
    """
    found, rejects = _places(document, windows[0].subwords)
    spans = windows[0].windows
    owners = [owner(spans, place.head[0], place.head[1] + 1, len(windows[0].subwords)) for place in found]
    held: dict[int | None, list[Place]] = defaultdict(list)
    for index, place in zip(owners, found, strict=True):
        held[index].append(place)
        if index is None:
            rejects.append(f"{document.document_id}: a head of {_width(place)} sub-words fits no window")
        elif place.span[0] < spans[index].begin or place.span[1] >= spans[index].end:
            rejects.append(f"{document.document_id}: a mention is read in part: its window cuts it")
    for window in windows:
        begin, end = window.span
        inside = held[window.index]
        clipped = [(max(p.span[0], begin), min(p.span[1], end - 1)) for p in inside]
        yield {
            "document_id": document.document_id,
            "ids": window.ids,
            "length": len(window.ids) + SPECIAL_TOKENS,
            "group": story_of(document),
            "story": label(story_of(document)),
            "chain": np.array([p.chain for p in inside], np.int64),
            "head": _relative(window, [p.head for p in inside]),
            "span": _relative(window, clipped),
            "rejects": rejects if window.index == 0 else [],
        }


def label(*names: str) -> int:
    """A number for names, the same on every worker, of 63 bits."""
    return number_of("\x1f".join(names)) % 2**64 >> 1


def _places(document: Document, subwords: SubWords) -> tuple[list[Place], list[str]]:
    """The mentions of chains, each once, by head; a line for each left out."""
    found: dict[Place, None] = {}
    rejects = []
    for mention in chained(document):
        span = locate(subwords, mention.start, mention.end)
        head = None if mention.head is None else locate(subwords, *mention.head)
        if span is None:
            rejects.append(f"{document.document_id}: {mention.start}-{mention.end}: holds no word")
            continue
        first, last = span[:2]
        if head is not None and not first <= head[0] <= head[1] <= last:
            rejects.append(f"{document.document_id}: {mention.start}-{mention.end}: its head lies outside")
            head = None
        chain = label(document.document_id, str(mention.chain))
        at = _head(document.text, subwords, first, last) if head is None else head[:2]
        found[Place(chain, at, (first, last))] = None
    return sorted(found, key=lambda place: (place.head, place.span, place.chain)), rejects


def _head(text: str, subwords: SubWords, first: int, last: int) -> tuple[int, int]:
    begin, end = subwords.word_of[[first, last]]
    word = begin + head_of([text[slice(*subwords.words[w])] for w in range(begin, end + 1)])
    return int(subwords.first[word]), int(subwords.last[word])


def _relative(window: TextWindow, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    places = [window.place(end) for span in spans for end in span]
    return np.array(places, np.int32)


def _width(place: Place) -> int:
    return place.head[1] - place.head[0] + 1
