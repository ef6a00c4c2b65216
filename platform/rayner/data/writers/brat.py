"""brat standoff: a .txt and an .ann a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from rayner.data.readers.base import entity_of
from rayner.data.schema import Document
from rayner.data.writers.base import Written, one_line
from rayner.data.writers.names import file_name, write_text
from rayner.files.whole import text_file

_RESOURCE_ID = re.compile(r"[^\s:]+:\S+")


def write_brat(documents: Iterable[Document], folder: str | PathLike[str]) -> Written:
    """Write a pair of files a document.

    Ids of the form RESOURCE:ID become normalizations, others AnnotatorNotes; both read back as entity ids.
    """
    written = Written()
    for document in documents:
        if not document.text:
            written.drop("document without text")
            continue
        written.drop_fields(document, ("entity_id",))
        base = Path(folder) / file_name(document.document_id, written)
        text_path, notes_path = (base.with_name(base.name + suffix) for suffix in (".txt", ".ann"))
        write_text(text_path, document.text)
        with text_file(notes_path) as file:
            file.writelines(_lines(document, written))
        written.paths += [text_path, notes_path]
        written.documents += 1
        written.mentions += len(document.mentions)
    return written


def _lines(document: Document, written: Written) -> Iterator[str]:
    for number, mention in enumerate(document.mentions, 1):
        type_ = "_".join(mention.type.split())
        written.drop("white space in a type", type_ != mention.type)
        surface = one_line(document.text[mention.start : mention.end])
        yield f"T{number}\t{type_} {mention.start} {mention.end}\t{surface}\n"
        id_ = mention.entity_id
        if id_ is None:
            continue
        if entity_of(id_) is None or id_.split() != [id_]:
            written.drop("entity_id")
        elif _RESOURCE_ID.fullmatch(id_):
            yield f"N{number}\tReference T{number} {id_}\t{surface}\n"
        else:
            yield f"#{number}\tAnnotatorNotes T{number}\t{id_}\n"
