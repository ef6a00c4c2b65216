"""spaCy's DocBin (`.spacy` files). It needs the extra `spacy`, which is imported only when it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

from rayner.data.readers.base import entity_of
from rayner.data.schema import Document, Span
from rayner.data.spacy_docs import SPANS, load_spacy
from rayner.data.words import are_in_order, find_words
from rayner.data.writers.base import Losses, Written
from rayner.data.writers.iob2 import outermost
from rayner.files.whole import whole_file

TOKENS = 1 << 19
"""Of a file, after which the next one begins: a DocBin is made and read in memory."""
_ATTRIBUTES = ("ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "SENT_START")
_KEPT = ("words", "sentences", "language", "group", "annotated_types", "entity_id")


def write_docbin(documents: Iterable[Document], folder: str | PathLike[str]) -> Written:
    """Write `documents-00000.spacy`, ... to a folder, each of about `TOKENS` tokens.

    `doc.ents` holds the outermost mentions, `doc.spans["sc"]` all of them; entity ids are `kb_id`. Tokens are
    the document's words, cut where a mention or a sentence begins or ends, and what is between them.
    `doc.user_data` has the document's id, and its language, group and annotated types where known.

    Raises:
        InputError: spaCy is not installed.
    """
    written = Written()
    for number, docs in enumerate(_files(load_spacy(), documents, written)):
        path = Path(folder) / f"documents-{number:05d}.spacy"
        with whole_file(path) as partial:
            docs.to_disk(partial)
        written.paths.append(path)
    return written


def _files(spacy: Any, documents: Iterable[Document], written: Written) -> Iterator[Any]:
    vocab = import_module("spacy.vocab").Vocab()
    docs, tokens = None, 0
    for document in documents:
        docs = docs or spacy.DocBin(_ATTRIBUTES, store_user_data=True)
        losses = Losses(document.document_id)
        doc = _doc(spacy, vocab, document, losses)
        docs.add(doc)
        written.add(document.mentions, losses)
        tokens += len(doc)
        if tokens >= TOKENS:
            yield docs
            docs, tokens = None, 0
    if docs is not None:
        yield docs


def _doc(spacy: Any, vocab: Any, document: Document, losses: Losses) -> Any:
    losses.drop_fields(document, _KEPT)
    sentences = _sentences(document, losses)
    pieces, spaces = _tokens(document, sentences, losses)
    losses.drop("sentences of a single token", len(pieces) == 1 and bool(document.sentences))
    starts = {start: place for place, (start, _) in enumerate(pieces)}
    ends = {end: place + 1 for place, (_, end) in enumerate(pieces)}
    begins = {starts[start] for start, _ in sentences}
    doc = spacy.Doc(
        vocab,
        words=[document.text[start:end] for start, end in pieces],
        spaces=spaces,
        sent_starts=[place in begins for place in range(len(pieces))] if begins else None,
    )
    found = {
        (m.start, m.end, m.type, m.entity_id): spacy.Span(
            doc, starts[m.start], ends[m.end], label=m.type, kb_id=m.entity_id or ""
        )
        for m in document.mentions
    }
    nameless = [m for m in document.mentions if m.entity_id and entity_of(m.entity_id) != m.entity_id]
    losses.drop_mentions("entity_id", nameless)
    losses.drop("mention given twice", len(document.mentions) - len(found))
    flat = outermost(document.mentions, Losses(document.document_id))
    doc.set_ents([found[m.start, m.end, m.type, m.entity_id] for m in flat])
    doc.spans[SPANS] = list(found.values())
    known = {name: getattr(document, name) for name in ("language", "group", "annotated_types")}
    doc.user_data["document_id"] = document.document_id
    doc.user_data.update({name: value for name, value in known.items() if value is not None})
    return doc


def _tokens(document: Document, sentences: set[Span], losses: Losses) -> tuple[list[Span], list[bool]]:
    """Spans that hold the whole text, less the spaces that follow a token, and which tokens these follow."""
    units = [*_words(document), *((mention.start, mention.end) for mention in document.mentions), *sentences]
    firsts, lasts = {start for start, _ in units}, {end for _, end in units}
    pieces: list[Span] = []
    spaces: list[bool] = []
    for start, end in pairwise(sorted({0, len(document.text), *firsts, *lasts})):
        alone = start in firsts or end in lasts
        if pieces and not spaces[-1] and not alone and document.text[start] == " ":
            spaces[-1] = True
            start += 1
        if start < end:
            pieces.append((start, end))
            spaces.append(False)
    read_as_words = [(start, end) for start, end in pieces if not document.text[start:end].isspace()]
    losses.drop("words", document.words is not None and list(document.words) != read_as_words)
    return pieces, spaces


def _words(document: Document) -> Sequence[Span]:
    if document.words is None or not are_in_order(document.words):
        return find_words(document.text)
    return [(start, end) for start, end in document.words if start < end]


def _sentences(document: Document, losses: Losses) -> set[Span]:
    """The document's; a sentence of spaCy reaches to where the next one begins."""
    if document.sentences is None:
        return set()
    edges = [0, *(edge for sentence in document.sentences for edge in sentence), len(document.text)]
    between = [document.text[end:start] for end, start in zip(edges[::2], edges[1::2], strict=True)]
    inside = [document.text[start:end] for start, end in document.sentences]
    padded = any(text != text.strip() or not text for text in inside)
    in_order = are_in_order(document.sentences) and bool(document.sentences)
    losses.drop("sentences", padded or not in_order or "".join(between).strip() != "")
    return {(start, end) for start, end in document.sentences if start < end}
