"""Train, development and test parts that are the same on every machine and cut no group."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping

from rayner.data.schema import Document
from rayner.errors import CorpusError

FRACTIONS: Mapping[str, float] = {"train": 0.8, "dev": 0.1, "test": 0.1}


def split_of(document: Document, fractions: Mapping[str, float] = FRACTIONS, seed: int = 0) -> str:
    """The split of one document: a function of its group, or else its id, and of nothing else in the corpus.

    The hash of the key is a number in [0, 1); fractions are stretches of it, in their order.
    """
    return _split_of(_key(document), fractions, seed)


def _key(document: Document) -> str:
    return document.document_id if document.group is None else document.group


def _split_of(key: str, fractions: Mapping[str, float], seed: int) -> str:
    digest = hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
    place = int.from_bytes(digest) / 2**64
    total = 0.0
    for name, fraction in fractions.items():
        total += fraction
        if place < total:
            return name
    # Fractions such as 0.8, 0.1, 0.1 may sum to a little less than 1.
    return next(name for name in reversed(list(fractions)) if fractions[name] > 0)


def hash_of_text(document: Document) -> bytes:
    """The same for texts that differ in nothing but white space."""
    text = " ".join(document.text.split())
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).digest()


def split(
    documents: Iterable[Document], fractions: Mapping[str, float] = FRACTIONS, seed: int = 0
) -> dict[str, list[Document]]:
    """The documents of each split, in their order; an error where a split would stay empty.

    Documents without a group that have the same text go where the one with the first id goes.
    """
    if any(not 0 <= f <= 1 for f in fractions.values()) or not math.isclose(sum(fractions.values()), 1):
        raise CorpusError("fractions", f"{dict(fractions)} do not sum to 1", "give fractions of 1")
    parts: dict[str, list[Document]] = {name: [] for name in fractions}
    documents = list(documents)
    first_id: dict[bytes, str] = {}
    for document in documents:
        if document.group is None and document.text.strip():
            text = hash_of_text(document)
            first_id[text] = min(document.document_id, first_id.get(text, document.document_id))
    for document in documents:
        key = _key(document)
        if document.group is None:
            key = first_id.get(hash_of_text(document), key)
        parts[_split_of(key, fractions, seed)].append(document)
    for name, part in parts.items():
        if not part and fractions[name] > 0:
            sizes = ", ".join(f"{key}: {len(value)}" for key, value in parts.items())
            raise CorpusError(
                "fractions",
                f"the split {name!r} would be empty ({sizes})",
                "give it a larger fraction, another seed, or more documents or groups",
            )
    return parts
