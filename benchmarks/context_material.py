"""Novels, their sentences and contexts, and synthetic pairs: what `context_results` works on."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rayner.config import ContextSettings
from rayner.data.readers import read_corpus
from rayner.data.schema import Context, Document, Span
from rayner.data.sentences import split_sentences
from rayner.errors import CorpusError
from rayner.retrieval.contexts import find_contexts
from rayner.retrieval.document_sentences import DocumentSentences
from rayner.supervision.context_rows import ContextRow
from rayner.tasks.contexts.stage import ContextCandidates, ContextStage
from rayner.tasks.predict import predict

FOLDS = 2
HEURISTICS = ("before", "after", "surrounding", "bm25", "same_noun", "random")
COUNTS = (1, 2, 3, 4)
DRAWN = {0: 0.4, 1: 0.2, 2: 0.2, 3: 0.1, 4: 0.1}
"""How often a sentence is read with so many contexts in training."""
NAMELESS = 0.25
"""The part of the sentences that hold no names for certain that recognizers learn from."""

LETTERS = 60
"""A run of letters by which the end of a chapter is found in its novel."""
_QUOTES = str.maketrans({"\u201c": "``", "\u201d": "''", "\u2018": "`", "\u2019": "'", "\u2014": "--"})
"""As the chapters are written."""

Chosen = Sequence[Sequence[Context]]
"""The contexts of each sentence of a novel."""


def load_novels() -> list[Document]:
    """The chapters, with the sentences of the published code."""
    folder = Path(os.environ["RAYNER_DATA"]) / "literary-ner-dekker"
    return [replace(novel, sentences=published_sentences(novel)) for novel in read_corpus([folder]).documents]


def published_sentences(novel: Document) -> tuple[Span, ...]:
    """Sentences end after `.`, `?`, `!` and closing quotes, unless a closing quote follows."""
    spans, first = [], 0
    words = [novel.text[start:end] for start, end in novel.words or ()]
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else None
        if following is None or (word in (".", "?", "!", "''") and following != "''"):
            assert novel.words is not None
            spans.append((novel.words[first][0], novel.words[place][1]))
            first = place + 1
    return tuple(spans)


def with_rest_of_book(novel: Document) -> Document:
    """The chapter, and behind it the rest of its novel with sentences by our rules; no mentions.

    Raises:
        CorpusError: the end of the chapter is not in the novel.
    """
    path = Path(os.environ["RAYNER_DATA"]) / "dekker-full-novels" / f"{novel.document_id}.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        book = file.read().translate(_QUOTES).partition("*** END OF")[0]
    rest = book[_after_chapter(novel, book) :]
    shift = len(novel.text) + 2
    spans = [(start + shift, end + shift) for start, end in split_sentences(rest, "en")]
    return Document(
        novel.document_id,
        f"{novel.text}\n\n{rest}",
        words=novel.words,
        sentences=(*(novel.sentences or ()), *spans),
    )


def _after_chapter(novel: Document, book: str) -> int:
    """Where in the book the chapter is over: after the last run of its letters that occurs once."""
    places = [place for place, sign in enumerate(book) if sign.isalnum()]
    letters = "".join(book[place] for place in places).lower()
    chapter = "".join(filter(str.isalnum, novel.text)).lower()
    for end in range(len(chapter), LETTERS, -1):
        run = chapter[end - LETTERS : end]
        if letters.count(run) == 1:
            return places[letters.index(run) + LETTERS - 1] + 1
    raise CorpusError(novel.document_id, "no part of the chapter is in the novel")


def may_hold_names(novel: Document) -> list[bool]:
    """Of each sentence: whether it has a capitalized word that the novel never writes small."""
    words = {(start, novel.text[start:end]) for start, end in novel.words or ()}
    small = {word for _, word in words if word[0].islower()} | {"i"}
    starts = [start for start, word in words if word[0].isupper() and word.lower() not in small]
    return [any(begin <= start < end for start in starts) for begin, end in novel.sentences or ()]


def learned_from(novel: Document, seed: int) -> list[bool]:
    """Of each sentence: whether recognizers learn from it."""
    asked = may_hold_names(novel)
    chances = np.random.default_rng((seed, len(novel.text))).random(len(asked))
    return [is_asked or bool(chance < NAMELESS) for is_asked, chance in zip(asked, chances, strict=True)]


def sentence_documents(novel: Document, contexts: Chosen | None = None, part: str = "") -> list[Document]:
    """Each sentence of a novel as a document, with its contexts."""
    made = []
    for number, (begin, end) in enumerate(novel.sentences or ()):
        within = [(a - begin, b - begin) for a, b in novel.words or () if begin <= a < end]
        mentions = [mention for mention in novel.mentions if begin <= mention.start < end]
        made.append(
            Document(
                f"{novel.document_id}:{number}{part}",
                novel.text[begin:end],
                tuple(replace(m, start=m.start - begin, end=m.end - begin) for m in mentions),
                words=None if novel.words is None else tuple(within),
                group=novel.document_id,
                contexts=tuple(contexts[number]) if contexts else (),
            )
        )
    return made


class AskedSentences(ContextStage):
    """Gives contexts only to sentences that may hold names, none to those of which no words are given."""

    def candidates(self, document: Document) -> ContextCandidates:
        """As of every stage; none for the others."""
        spans = document.sentences or ()
        sentences = DocumentSentences([document.text[start:end] for start, end in spans])
        asked = np.flatnonzero(may_hold_names(document)).tolist()
        count = self._settings.candidates or self._settings.count
        found = dict(zip(asked, find_contexts(sentences, self._methods, count, asked), strict=True))
        return ContextCandidates(document, sentences, [found.get(number, []) for number in range(len(spans))])


def best(contexts: Sequence[Context], count: int) -> tuple[Context, ...]:
    """The first `count` by score, in their order."""
    kept = sorted(range(len(contexts)), key=lambda place: -(contexts[place].score or 0))[:count]
    return tuple(contexts[place] for place in sorted(kept))


def by_method(novel: Document, method: str) -> Chosen:
    """The most contexts of each sentence that a heuristic gives."""
    stage = ContextStage(ContextSettings(methods=(method,), count=max(COUNTS)))  # pyright: ignore[reportArgumentType]
    return next(iter(predict(stage, [novel]))).sentence_contexts or ()


def drawn(novel: Document, seed: int, number: int) -> Chosen:
    """For training: each sentence with some contexts of a heuristic, both drawn."""
    rng = np.random.default_rng((seed, number, len(novel.text)))
    found = [by_method(novel, method) for method in HEURISTICS]
    methods = rng.integers(0, len(HEURISTICS), len(found[0]))
    counts = rng.choice(list(DRAWN), len(found[0]), p=list(DRAWN.values()))
    return [best(found[m][place], int(c)) for place, (m, c) in enumerate(zip(methods, counts, strict=True))]


def is_of_novels(rows: Sequence[ContextRow], novels: Sequence[Document]) -> list[bool]:
    """Whether the sentence or the context of a row occurs in a novel, however it is quoted or spaced."""
    texts = [f" {_letters(novel.text)} " for novel in novels]

    def occurs(text: str) -> bool:
        return any(f" {_letters(text)} " in whole for whole in texts)

    return [occurs(row.sentence) or occurs(row.context) for row in rows]


def _letters(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def tested_in(fold: int, novels: Sequence[Document]) -> list[Document]:
    """The novels that a fold's recognizer does not learn from."""
    return [novel for number, novel in enumerate(novels) if number % FOLDS == fold]


def learned_by(fold: int, novels: Sequence[Document]) -> list[Document]:
    """The novels that a fold learns from."""
    return [novel for number, novel in enumerate(novels) if number % FOLDS != fold]
