"""The documents of a recipe's corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rayner.config import CorpusSettings
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.data.split import split
from rayner.recipes import corpus_paths
from rayner.supervision.dictionaries import Dictionary, Name, label_document
from rayner.supervision.dictionary_files import read_dictionary


def split_documents(corpus: CorpusSettings, part: Literal["train", "dev"]) -> Sequence[Document]:
    """The documents of a split, labelled by the recipe's dictionary if they are to be learned from.

    Raises:
        RecipeError: a path that does not exist.
        CorpusError: a corpus without documents, or a dictionary that cannot be read.
    """
    if part == "dev" and corpus.dev:
        return read_corpus(corpus_paths(corpus.dev), corpus.format).documents
    if part == "dev" and not corpus.dev_fraction:
        return []
    documents = read_corpus(corpus_paths(corpus.train), corpus.format).documents
    if corpus.dev_fraction:
        documents = split(documents, {"train": 1 - corpus.dev_fraction, "dev": corpus.dev_fraction})[part]
    if part == "train" and corpus.dictionary is not None:
        dictionary = _dictionary(corpus, corpus.dictionary)
        return [label_document(document, dictionary) for document in documents]
    return documents


def _dictionary(corpus: CorpusSettings, path: str) -> Dictionary:
    names = read_dictionary(corpus_paths([path])[0])
    if corpus.phrases is not None:
        names += [
            Name(name.name, None) for name in read_dictionary(corpus_paths([corpus.phrases])[0], "phrase")
        ]
    return Dictionary(names, corpus.labels)
