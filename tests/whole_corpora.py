"""The splits of a corpus by their definition: all documents in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rayner.config import CorpusSettings
from rayner.config.recipe_files import corpus_paths
from rayner.data.readers import Reading, merge, read_corpus
from rayner.data.schema import Document
from rayner.data.split import split_keys, splits_of
from rayner.tasks.splits import Split, change_of, tell_rejects

FRACTIONS: Mapping[str, float] = {"train": 0.8, "dev": 0.1, "test": 0.1}


def split(
    documents: Iterable[Document],
    fractions: Mapping[str, float] = FRACTIONS,
    seed: int = 0,
    where: str = "fractions",
) -> dict[str, list[Document]]:
    """The documents of each split, in their order, as `splits_of` has it."""
    documents = list(documents)
    found = splits_of(split_keys(documents, seed), fractions, where).tolist()
    parts: dict[str, list[Document]] = {name: [] for name in fractions}
    of_number = list(parts.values())
    for document, number in zip(documents, found, strict=True):
        of_number[number].append(document)
    return parts


def split_documents(corpus: CorpusSettings, part: Split) -> Sequence[Document]:
    """The documents of a split, all of them in memory, labelled by the recipe's dictionary if they are to be
    learned from.

    Raises:
        RecipeError: a path that does not exist.
        CorpusError: a corpus without documents, or a dictionary that cannot be read.
    """
    if part == "dev" and not corpus.dev and not corpus.dev_fraction:
        return []
    change = change_of(corpus, part)
    documents = read_split(corpus.dev if part == "dev" and corpus.dev else corpus.train, corpus)
    if corpus.dev_fraction:
        fractions = {"train": 1 - corpus.dev_fraction, "dev": corpus.dev_fraction}
        documents = split(documents, fractions, where="corpus.dev_fraction")[part]
    return [change(document) for document in documents]


def read_annotated(paths: Sequence[str], corpus: CorpusSettings) -> Reading:
    """What paths of a recipe hold, each document with the types that the recipe says its path was annotated
    for.

    Raises:
        RecipeError: a path that does not exist.
        CorpusError: no documents.
    """
    if not corpus.annotated:
        return read_corpus(corpus_paths(paths), corpus.format)
    return merge(annotated_at(path, corpus) for path in paths)


def annotated_at(path: str, corpus: CorpusSettings) -> Reading:
    reading = read_corpus(corpus_paths([path]), corpus.format)
    types = corpus.annotated.get(path)
    if types is not None:
        reading.documents[:] = [replace(d, annotated_types=types) for d in reading.documents]
    return reading


def read_split(paths: Sequence[str], corpus: CorpusSettings) -> Sequence[Document]:
    reading = read_annotated(paths, corpus)
    if reading.rejects:
        first = reading.rejects[0]
        tell_rejects(paths, len(reading.rejects), f"{first.where}: {first.what}")
    return reading.documents
