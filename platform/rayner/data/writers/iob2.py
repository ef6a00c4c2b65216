"""IOB2 columns: a word, a tab, a tag; `-DOCSTART- (ID)` before a document, a blank line after a sentence."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path

from rayner.data.readers.base import in_order
from rayner.data.readers.columns import DOCUMENT_MARK
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document, Mention, Span
from rayner.data.words import find_words
from rayner.data.writers.base import Written, one_line
from rayner.files.whole import text_file


def write_iob2(documents: Iterable[Document], path: str | PathLike[str]) -> Written:
    """Write one file.

    Columns hold no nested mentions (the outer stays) and none that begins or ends inside a word; both are
    counted, and so are texts that are not their words with single spaces between them. Documents without
    words get those of their text, cut where a mention begins or ends.
    """
    written = Written(paths=[Path(path)])
    with text_file(Path(path)) as file:
        for document in documents:
            file.write(_block(document, written))
            written.documents += 1
    return written


def _block(document: Document, written: Written) -> str:
    written.drop_fields(document, ("words", "sentences"))
    mentions = _flat(document.mentions, written)
    words = _words(document, mentions, written)
    sentence_of = _sentence_numbers(document, words)
    tags = ["O"] * len(words)
    starts = {start: place for place, (start, _) in enumerate(words)}
    ends = {end: place for place, (_, end) in enumerate(words)}
    for mention in mentions:
        first, last = starts.get(mention.start), ends.get(mention.end)
        if first is None or last is None:
            written.drop("mention that begins or ends inside a word or in white space")
        elif sentence_of[first] != sentence_of[last]:
            written.drop("mention across sentences")
        else:
            type_ = one_line(mention.type).strip()
            written.drop("white space in a type", type_ != mention.type)
            tags[first : last + 1] = [f"B-{type_}", *[f"I-{type_}"] * (last - first)]
            written.mentions += 1
    id_ = one_line(document.document_id).strip()
    written.drop("white space in a document_id", id_ != document.document_id)
    lines = [f"{DOCUMENT_MARK} ({id_})\tO", ""]
    sentences: list[list[str]] = [[]]
    for place, ((start, end), tag) in enumerate(zip(words, tags, strict=True)):
        if place and sentence_of[place] != sentence_of[place - 1]:
            lines.append("")
            sentences.append([])
        word = one_line(document.text[start:end])
        if word.startswith(DOCUMENT_MARK) and (tag == "O" or word != DOCUMENT_MARK):
            written.drop(f"hyphen of a word {DOCUMENT_MARK}")
            word = word.removeprefix("-")
        sentences[-1].append(word)
        lines.append(f"{sentences[-1][-1]}\t{tag}")
    written.drop("spacing of a text", join_words(sentences)[0] != document.text)
    return "\n".join(lines) + "\n\n"


def _flat(mentions: Sequence[Mention], written: Written) -> list[Mention]:
    flat: list[Mention] = []
    for mention in in_order(mentions):
        if flat and mention.start < flat[-1].end:
            written.drop("nested or overlapping mention")
        else:
            flat.append(mention)
    return flat


def _words(document: Document, mentions: Sequence[Mention], written: Written) -> list[Span]:
    if document.words is not None:
        words = [(start, end) for start, end in document.words if start < end]
        written.drop("empty word", len(document.words) - len(words))
    else:
        edges = sorted({edge for mention in mentions for edge in (mention.start, mention.end)})
        words = [piece for word in find_words(document.text) for piece in _cut(word, edges)]
    if not words:
        written.drop("document without words")
    return words


def _cut(word: Span, edges: Sequence[int]) -> list[Span]:
    start, end = word
    inner = edges[bisect_right(edges, start) : bisect_right(edges, end - 1)]
    bounds = [start, *inner, end]
    return list(pairwise(bounds))


def _sentence_numbers(document: Document, words: Sequence[Span]) -> list[int]:
    starts = [start for start, _ in document.sentences or ()]
    return [bisect_right(starts, start) for start, _ in words]
