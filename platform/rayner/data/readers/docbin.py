"""spaCy's DocBin (`.spacy` files). It needs the extra `spacy`, which is imported only when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample, entity_of, in_order
from rayner.data.schema import Document, Mention, Span
from rayner.data.spacy_docs import SPANS, load_spacy
from rayner.errors import CorpusError

_OF_USER = ("language", "group")

_Key = tuple[int, int, str, str | None]
"""Start, end, type and entity of a mention."""


def matches(sample: Sample) -> bool:
    """Whether the name says that it is spaCy's."""
    return files.suffix(sample.path) == ".spacy"


def read(unit: FileUnit) -> Reading:
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
    types = known.get("annotated_types")
    # spaCy says that one token alone has been divided.
    divided = len(doc) > 1 and doc.has_annotation("SENT_START")
    return Document(
        id_ if isinstance(id_, str) and id_ else default_id,
        doc.text,
        in_order([Mention(*one) for one in _mentions(doc)]),
        words=tuple((token.idx, token.idx + len(token)) for token in doc if not token.text.isspace()),
        sentences=tuple(_sentences(doc)) if divided else None,
        annotated_types=tuple(map(str, types)) if isinstance(types, list | tuple) else None,
        **{name: known[name] for name in _OF_USER if isinstance(known.get(name), str)},
    )


def _mentions(doc: Any) -> set[_Key]:
    """Those of `doc.ents` and of the spans. One whose entity one of both alone knows, as what links entities
    leaves it, is one."""
    ents, spans = (
        {(s.start_char, s.end_char, s.label_, entity_of(s.kb_id_)) for s in group}
        for group in (doc.ents, doc.spans.get(SPANS, ()))
    )
    of_ents, of_spans = ents - spans, spans - ents
    return (ents | spans) - _without_entity(of_ents, of_spans) - _without_entity(of_spans, of_ents)


def _without_entity(mentions: set[_Key], others: set[_Key]) -> set[_Key]:
    """Those without an entity that are among the others with one."""
    linked = {other[:3] for other in others if other[3] is not None}
    return {one for one in mentions if one[3] is None and one[:3] in linked}


def _is_annotated(doc: Any) -> bool:
    """Whether somebody looked for mentions in it, or there is nothing to look at."""
    return not len(doc) or doc.has_annotation("ENT_IOB") or SPANS in doc.spans


def _sentences(doc: Any) -> Iterator[Span]:
    """Without the white space around them."""
    for sentence in doc.sents:
        inside = [token for token in sentence if not token.text.isspace()]
        if inside:
            yield inside[0].idx, inside[-1].idx + len(inside[-1])
