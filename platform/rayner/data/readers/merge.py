"""Several readings as one, each document once."""

from __future__ import annotations

from collections.abc import Iterable

from rayner.data.readers.base import Reading

TWICE = "identical document given twice: kept once"


def merge(readings: Iterable[Reading]) -> Reading:
    """All readings in one, in order; of two unlike documents with one id, the second becomes a reject."""
    merged = Reading()
    seen: dict[str, int] = {}
    for reading in readings:
        merged.rejects += reading.rejects
        merged.repaired += reading.repaired
        merged.ignored += reading.ignored
        for document, place in zip(reading.documents, reading.places, strict=True):
            first = seen.setdefault(document.document_id, len(merged.documents))
            if first == len(merged.documents):
                merged.documents.append(document)
                merged.places.append(place)
            elif merged.documents[first] == document:
                merged.repaired[TWICE] += 1
            else:
                what = f"document {document.document_id!r} differs from the one at {merged.places[first]}"
                merged.reject(place, what, "give each document an id of its own", document.document_id)
    return merged


def join(readings: Iterable[Reading]) -> Reading:
    """All readings in one, in order."""
    joined = Reading()
    for reading in readings:
        joined.documents += reading.documents
        joined.places += reading.places
        joined.rejects += reading.rejects
        joined.repaired += reading.repaired
        joined.ignored += reading.ignored
    return joined
