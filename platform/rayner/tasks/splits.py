"""The documents of a recipe's corpus."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

from rayner.config import CorpusSettings
from rayner.config.reading import corpus_paths
from rayner.data.readers import Reading, merge, read_corpus
from rayner.data.schema import Document
from rayner.data.split import split
from rayner.errors import CorpusError
from rayner.supervision.dictionaries import Dictionary, Name, label_document
from rayner.supervision.dictionary_files import read_dictionary

log = logging.getLogger(__name__)


def split_documents(corpus: CorpusSettings, part: Literal["train", "dev"]) -> Sequence[Document]:
    """The documents of a split, labelled by the recipe's dictionary if they are to be learned from.

    Raises:
        RecipeError: a path that does not exist.
        CorpusError: a corpus without documents, or a dictionary that cannot be read.
    """
    if part == "dev" and corpus.dev:
        return _read(corpus.dev, corpus)
    if part == "dev" and not corpus.dev_fraction:
        return []
    documents = _read(corpus.train, corpus)
    if corpus.dev_fraction:
        documents = split(documents, {"train": 1 - corpus.dev_fraction, "dev": corpus.dev_fraction})[part]
    if part == "train" and corpus.dictionary is not None:
        dictionary = _dictionary(corpus, corpus.dictionary)
        return [renamed(label_document(document, dictionary), corpus.rename) for document in documents]
    return documents


def require_mentions(documents: Iterable[Document], types: Sequence[str]) -> None:
    """Refuse documents to learn from that have no mention of any of the types.

    Raises:
        CorpusError: it says which types the documents do have.
    """
    counts = Counter(mention.type for document in documents for mention in document.mentions)
    if counts.keys().isdisjoint(types):
        there = ", ".join(f"{name} ({count})" for name, count in counts.most_common(10)) or "none at all"
        what = f"no mention of {', '.join(types[:10])}; mentions of: {there}"
        raise CorpusError("corpus.train", what, "name the corpus's own types in `types`, or another corpus")


def renamed(document: Document, names: Mapping[str, str]) -> Document:
    """The document with its types as the recipe calls them."""
    if not names:
        return document
    mentions = tuple(replace(m, type=names.get(m.type, m.type)) for m in document.mentions)
    types = document.annotated_types
    annotated = None if types is None else tuple(dict.fromkeys(names.get(t, t) for t in types))
    return replace(document, mentions=mentions, annotated_types=annotated)


def read_documents(paths: Sequence[str], corpus: CorpusSettings) -> Reading:
    """What paths of a recipe hold, each document with the types that the recipe says its path was annotated
    for.

    Raises:
        RecipeError: a path that does not exist.
        CorpusError: no documents.
    """
    if not corpus.annotated:
        return read_corpus(corpus_paths(paths), corpus.format)
    return merge(_of_types(path, corpus) for path in paths)


def _of_types(path: str, corpus: CorpusSettings) -> Reading:
    reading = read_corpus(corpus_paths([path]), corpus.format)
    types = corpus.annotated.get(path)
    if types is not None:
        reading.documents[:] = [replace(d, annotated_types=types) for d in reading.documents]
    return reading


def _read(paths: Sequence[str], corpus: CorpusSettings) -> Sequence[Document]:
    reading = read_documents(paths, corpus)
    if reading.rejects:
        first = reading.rejects[0]
        _say_once(
            f"{len(reading.rejects)} documents or mentions cannot be read; `rayner corpus check "
            f"{' '.join(paths)}` lists them; the first: {first.where}: {first.what}"
        )
    return [renamed(document, corpus.rename) for document in reading.documents]


@cache
def _say_once(message: str) -> None:
    log.warning(message)


def _dictionary(corpus: CorpusSettings, path: str) -> Dictionary:
    names = read_dictionary(corpus_paths([path])[0])
    if corpus.phrases is not None:
        names += [
            Name(name.name, None) for name in read_dictionary(corpus_paths([corpus.phrases])[0], "phrase")
        ]
    return Dictionary(names, corpus.labels)
