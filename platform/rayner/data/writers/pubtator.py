"""PubTator: the text up to its first line end is the title, the rest the abstract."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from rayner.data.readers.base import entity_of
from rayner.data.readers.offsets import with_spaces
from rayner.data.schema import Document, Mention
from rayner.data.writers.base import Losses, Written, escaped, plain_type
from rayner.files.whole import text_file

_UNSAFE = re.compile(r"[|\t\n\r]")


def write_pubtator(documents: Iterable[Document], path: str | PathLike[str]) -> Written:
    """Write one file. Line ends after the first become spaces, so that offsets stay; they are counted."""
    written = Written(paths=[Path(path)])
    with text_file(Path(path)) as file:
        for document in documents:
            losses = Losses(document.document_id)
            block, mentions = _block(document, losses)
            file.write(block)
            written.add(mentions, losses)
    return written


def _block(document: Document, losses: Losses) -> tuple[str, list[Mention]]:
    """The lines of a document, and the mentions that they hold."""
    losses.drop_fields(document, ("entity_id",))
    id_ = escaped(document.document_id, _UNSAFE)
    losses.drop("document_id (| and tabs or line ends changed)", id_ != document.document_id)
    title, _, body = document.text.partition("\n")
    flat_title, flat_body = (part.replace("\r", " ").replace("\n", " ") for part in (title, body))
    lost = sum(a != b for a, b in zip(title + body, flat_title + flat_body, strict=True))
    # A line end with nothing behind it does not come back, nor does what reaches into it.
    size = len(document.text) - (document.text.endswith("\n") and not body)
    losses.drop("line break", lost + len(document.text) - size)
    held = [mention for mention in document.mentions if mention.end <= size]
    losses.drop_mentions("mention that ends in a line break", [m for m in document.mentions if m.end > size])
    lines = [f"{id_}|t|{flat_title}", f"{id_}|a|{flat_body}"]
    for mention in held:
        surface = with_spaces(document.text[mention.start : mention.end])
        type_ = plain_type(mention)
        entity_id = entity_of(with_spaces(mention.entity_id or ""))
        if type_ != mention.type:
            losses.drop_mentions("white space in a type", [mention])
        if entity_id != mention.entity_id:
            losses.drop_mentions("entity_id", [mention])
        lines.append(f"{id_}\t{mention.start}\t{mention.end}\t{surface}\t{type_}\t{entity_id or '-1'}")
    return "\n".join(lines) + "\n\n", held
