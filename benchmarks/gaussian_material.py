"""What `benchmarks.gaussian_results` trains and scores on: small parts of two Spanish corpora."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rayner.config.recipe_files import corpus_paths
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.data.writers.jsonl import write_jsonl

TYPES: Mapping[str, Sequence[str]] = {
    "livingner": ("SPECIES", "HUMAN"),
    "pharmaconer": ("NORMALIZABLES", "NO_NORMALIZABLES", "PROTEINAS"),
}
SIZES: Mapping[str, Mapping[str, int]] = {
    "livingner": {"train": 200, "dev": 150, "test": 1000},
    "pharmaconer": {"train": 12, "dev": 8, "test": 40},
}
"""Sentences of LivingNER, cases of PharmaCoNER."""
LONG = 30
"""Letters from which a sentence of both corpora is the same text, and not a phrase that anyone writes."""


def letters(text: str) -> str:
    """Without case, spaces and punctuation, in which two copies of a text differ."""
    return re.sub(r"\W+", "", text.lower())


def drawn(documents: Iterable[Document]) -> list[Document]:
    """One document of each text, in an order that their texts' hashes decide."""
    by_hash = {hashlib.sha256(letters(d.text).encode()).hexdigest(): d for d in documents}
    return [by_hash[key] for key in sorted(by_hash)]


def material(runs: Path) -> dict[str, dict[str, Path]]:
    """corpus -> part -> file; written where it is missing."""
    files = {c: {part: runs / "corpora" / f"{c}_{part}.jsonl" for part in SIZES[c]} for c in SIZES}
    if all(file.exists() for parts in files.values() for file in parts.values()):
        return files
    folder, living = map(
        Path, corpus_paths(["$RAYNER_DATA/pharmaconer", "$RAYNER_DATA/livingner-partial/valid.iob2.gz"])
    )
    train, test = (list(read_corpus([folder / part]).documents) for part in ("train", "valid"))
    known = "|".join(letters(d.text) for d in train + test)
    sentences = [d for d in read_corpus([living]).documents if not _occurs(letters(d.text), known)]
    parts = {
        "livingner": _parts(drawn(sentences), SIZES["livingner"]),
        "pharmaconer": _parts(drawn(train), {k: SIZES["pharmaconer"][k] for k in ("train", "dev")})
        | _parts(drawn(test), {"test": SIZES["pharmaconer"]["test"]}),
    }
    for corpus, of_corpus in parts.items():
        for part, documents in of_corpus.items():
            files[corpus][part].parent.mkdir(parents=True, exist_ok=True)
            write_jsonl((of_types(d, TYPES[corpus]) for d in documents), files[corpus][part])
    return files


def _occurs(sentence: str, known: str) -> bool:
    return len(sentence) >= LONG and sentence in known


def _parts(documents: Sequence[Document], sizes: Mapping[str, int]) -> dict[str, list[Document]]:
    found, begin = {}, 0
    for part, size in sizes.items():
        found[part] = list(documents[begin : begin + size])
        begin += size
    return found


def of_types(document: Document, types: Sequence[str]) -> Document:
    mentions = tuple(m for m in document.mentions if m.type in types)
    return replace(document, mentions=mentions, annotated_types=tuple(types))


def words_of(file: Path) -> int:
    """Words between spaces, as a measure of what is read."""
    return sum(len(document.text.split()) for document in read_corpus([file]).documents)
