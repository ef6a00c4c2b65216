"""brat standoff: a .txt and an .ann a document."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from rayner.data.readers.base import entity_of
from rayner.data.readers.brat import NOTE_OF_ID, is_id
from rayner.data.readers.offsets import with_spaces
from rayner.data.schema import Document, Mention
from rayner.data.writers.base import Losses, Written, escaped
from rayner.files.whole import text_file

MAX_BYTES = 200

_RESOURCE_ID = re.compile(r"[^\s:]+:\S+")
_UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|%]|^[._]')


def write_brat(documents: Iterable[Document], folder: str | PathLike[str]) -> Written:
    """Write a pair of files a document.

    Ids of the form RESOURCE:ID become normalizations, others AnnotatorNotes (without a digit as
    `entity_id: ID`); all read back as entity ids.
    """
    written = Written()
    for document in documents:
        losses = Losses(document.document_id)
        if not document.text:
            losses.drop("document without text")
            written.losses += losses.found.values()
            continue
        losses.drop_fields(document, ("entity_id",))
        name = file_name(document.document_id)
        losses.drop("document_id (changed to be a file's name)", name != document.document_id)
        text_path, notes_path = (Path(folder, name + suffix) for suffix in (".txt", ".ann"))
        with text_file(text_path) as file:
            # Readers take a byte-order mark away.
            file.write("\ufeff" + document.text if document.text.startswith("\ufeff") else document.text)
        with text_file(notes_path) as file:
            file.writelines(_lines(document, losses))
        written.paths += [text_path, notes_path]
        written.add(document.mentions, losses)
    return written


def file_name(document_id: str) -> str:
    """The name of a document's files, without the suffix: one that any file system takes."""
    name = escaped(document_id, _UNSAFE)
    if len(name.encode()) > MAX_BYTES:
        digest = hashlib.blake2b(document_id.encode(), digest_size=8).hexdigest()
        name = name.encode()[: MAX_BYTES - 20].decode(errors="ignore") + "-" + digest
    return name


def _lines(document: Document, losses: Losses) -> Iterator[str]:
    for number, mention in enumerate(document.mentions, 1):
        type_ = "_".join(mention.type.split())
        if type_ != mention.type:
            losses.drop_mentions("white space in a type", [mention])
        surface = with_spaces(document.text[mention.start : mention.end])
        yield f"T{number}\t{type_} {mention.start} {mention.end}\t{surface}\n"
        yield from _entity(mention, number, surface, losses)


def _entity(mention: Mention, number: int, surface: str, losses: Losses) -> Iterator[str]:
    id_ = mention.entity_id
    if id_ is None:
        return
    if entity_of(id_) is None or id_.split() != [id_]:
        losses.drop_mentions("entity_id", [mention])
    elif _RESOURCE_ID.fullmatch(id_):
        yield f"N{number}\tReference T{number} {id_}\t{with_spaces(mention.name or surface)}\n"
    else:
        note = id_ if is_id(id_) else NOTE_OF_ID + id_
        yield f"#{number}\tAnnotatorNotes T{number}\t{note}\n"
