"""IOB2 columns: a word, a tab, a tag; `-DOCSTART- (ID)` before a document, a blank line after a sentence."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from os import PathLike
from pathlib import Path

from rayner.data.readers.base import in_order
from rayner.data.readers.columns import DOCUMENT_MARK
from rayner.data.readers.offsets import with_spaces
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document, Mention, Span
from rayner.data.words import find_words
from rayner.data.writers.base import Losses, Written, escaped, plain_type
from rayner.files.whole import text_file

_UNSAFE = re.compile(r"[\t\n\r]|^\s|\s$")


def write_iob2(documents: Iterable[Document], path: str | PathLike[str]) -> Written:
    """Write one file.

    Columns hold no nested mentions (the outer stays) and none that begins or ends inside a word; both are
    counted, and so are texts that are not their words with single spaces between them. Documents without
    words get those of their text, cut where a mention begins or ends; one whose text has none is lost.
    """
    written = Written(paths=[Path(path)])
    with text_file(Path(path)) as file:
        for document in documents:
            losses = Losses(document.document_id)
            block, mentions = _block(document, losses)
            if block is None:
                losses.drop("document without words")
                written.losses += losses.found.values()
            else:
                file.write(block)
                written.add(mentions, losses)
    return written


def _block(document: Document, losses: Losses) -> tuple[str | None, list[Mention]]:
    """The lines of a document, and the mentions that they hold; None where it has no word."""
    losses.drop_fields(document, ("words", "sentences"))
    mentions = outermost(document.mentions, losses)
    words = _words(document, mentions, losses)
    sentence_of = _sentence_numbers(document, words)
    tags = ["O"] * len(words)
    starts = {start: place for place, (start, _) in enumerate(words)}
    ends = {end: place for place, (_, end) in enumerate(words)}
    held: list[Mention] = []
    for mention in mentions:
        first, last = starts.get(mention.start), ends.get(mention.end)
        # Of words that overlap, the last may lie before the first.
        if first is None or last is None or last < first:
            losses.drop_mentions("mention that begins or ends inside a word or in white space", [mention])
        elif sentence_of[first] != sentence_of[last]:
            losses.drop_mentions("mention across sentences", [mention])
        else:
            type_ = plain_type(mention)
            if type_ != mention.type:
                losses.drop_mentions("white space in a type", [mention])
            tags[first : last + 1] = [f"B-{type_}", *[f"I-{type_}"] * (last - first)]
            held.append(mention)
    if not words:
        return None, []
    id_ = escaped(document.document_id, _UNSAFE)
    losses.drop("document_id (white space changed)", id_ != document.document_id)
    lines = [f"{DOCUMENT_MARK} ({id_})\tO", ""]
    sentences: list[list[str]] = [[]]
    for place, ((start, end), tag) in enumerate(zip(words, tags, strict=True)):
        if place and sentence_of[place] != sentence_of[place - 1]:
            lines.append("")
            sentences.append([])
        word = with_spaces(document.text[start:end])
        if word.startswith(DOCUMENT_MARK) and (tag == "O" or word != DOCUMENT_MARK):
            losses.drop(f"hyphen of a word {DOCUMENT_MARK}")
            word = word.removeprefix("-")
        sentences[-1].append(word)
        lines.append(f"{sentences[-1][-1]}\t{tag}")
    losses.drop("spacing of a text", join_words(sentences)[0] != document.text)
    if document.sentences is not None:
        places = range(len(words))
        groups = [list(group) for _, group in groupby(places, key=sentence_of.__getitem__)]
        read = [(words[group[0]][0], words[group[-1]][1]) for group in groups]
        losses.drop("sentences", read != list(document.sentences))
    return "\n".join(lines) + "\n\n", held


def outermost(mentions: Sequence[Mention], losses: Losses) -> list[Mention]:
    """Mentions of which no two overlap, the first and longest ones; the others are lost."""
    flat: list[Mention] = []
    for mention in in_order(mentions):
        if flat and mention.start < flat[-1].end:
            losses.drop_mentions("nested or overlapping mention", [mention])
        else:
            flat.append(mention)
    return flat


def _words(document: Document, mentions: Sequence[Mention], losses: Losses) -> list[Span]:
    if document.words is not None:
        words = [(start, end) for start, end in document.words if start < end]
        losses.drop("empty word", len(document.words) - len(words))
    else:
        edges = sorted({edge for mention in mentions for edge in (mention.start, mention.end)})
        words = [piece for word in find_words(document.text) for piece in _cut(word, edges)]
    return words


def _cut(word: Span, edges: Sequence[int]) -> list[Span]:
    start, end = word
    inner = edges[bisect_right(edges, start) : bisect_right(edges, end - 1)]
    bounds = [start, *inner, end]
    return list(pairwise(bounds))


def _sentence_numbers(document: Document, words: Sequence[Span]) -> list[int]:
    starts = [start for start, _ in document.sentences or ()]
    return [bisect_right(starts, start) for start, _ in words]
