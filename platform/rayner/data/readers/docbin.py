"""spaCy's DocBin (`.spacy` files). It needs the extra `spacy`, which is imported only when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from typing import Any

from rayner.data.readers import files
from rayner.data.readers.base import Reading, Sample, Unit, entity_of, in_order
from rayner.data.schema import Document, Mention, Span
from rayner.data.spacy_docs import SPANS, load_spacy
from rayner.errors import CorpusError

_OF_USER = ("language", "group")


def matches(sample: Sample) -> bool:
    """Whether the name says that it is spaCy's."""
    return files.suffix(sample.path) == ".spacy"


def read(unit: Unit) -> Reading:
    """The documents of a file, each with the mentions of `doc.ents` and of `doc.spans["sc"]`.

    One that nobody annotated, which spaCy tells from one without mentions, is counted.

    Raises:
        CorpusError: it is no DocBin.
        InputError: spaCy is not installed.
    """
    (path,) = unit.paths
    reading = Reading()
    data = files.read_bytes(path)
    spacy = load_spacy(path)
    try:
        docs = list(spacy.DocBin().from_bytes(data).get_docs(import_module("spacy.vocab").Vocab()))
    except Exception as error:
        if files.is_fault(error):
            raise
        hint = "restore the file, or write it again with `DocBin.to_disk`"
        raise CorpusError(path, f"no DocBin of spaCy ({type(error).__name__})", hint) from None
    for number, doc in enumerate(docs, 1):
        others = [key for key in doc.spans if key != SPANS and len(doc.spans[key])]
        reading.ignored.update(f"spans {key!s:.40}" for key in others)
        reading.ignored.update(["categories"] if doc.cats else [])
        reading.ignored.update([] if _is_annotated(doc) else ["document that nobody annotated"])
        reading.add(_document(doc, f"{unit.name}:{number}"), f"{path}: document {number}")
    return reading


def _document(doc: Any, default_id: str) -> Document:
    known = doc.user_data
    id_ = known.get("document_id")
    spans = chain(doc.ents, doc.spans.get(SPANS, ()))
    found = {(s.start_char, s.end_char, s.label_, entity_of(s.kb_id_)) for s in spans}
    # What links entities may know `doc.ents` alone.
    linked = {one[:3] for one in found if one[3] is not None}
    types = known.get("annotated_types")
    # spaCy says that one token alone has been divided.
    divided = len(doc) > 1 and doc.has_annotation("SENT_START")
    return Document(
        id_ if isinstance(id_, str) and id_ else default_id,
        doc.text,
        in_order([Mention(*one) for one in found if one[3] is not None or one[:3] not in linked]),
        words=tuple((token.idx, token.idx + len(token)) for token in doc if not token.text.isspace()),
        sentences=tuple(_sentences(doc)) if divided else None,
        annotated_types=tuple(map(str, types)) if isinstance(types, list | tuple) else None,
        **{name: known[name] for name in _OF_USER if isinstance(known.get(name), str)},
    )


def _is_annotated(doc: Any) -> bool:
    """Whether somebody looked for mentions in it, or there is nothing to look at."""
    return not len(doc) or doc.has_annotation("ENT_IOB") or SPANS in doc.spans


def _sentences(doc: Any) -> Iterator[Span]:
    """Without the white space around them."""
    for sentence in doc.sents:
        inside = [token for token in sentence if not token.text.isspace()]
        if inside:
            yield inside[0].idx, inside[-1].idx + len(inside[-1])
