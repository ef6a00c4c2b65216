"""LivingNER: `entities.tsv` and a folder of texts."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from rayner.data.readers.base import entity_of
from rayner.data.readers.livingner import HEADER
from rayner.data.schema import Document
from rayner.data.writers.base import Written, one_line
from rayner.data.writers.names import file_name, write_text
from rayner.files.whole import text_file


def write_livingner(documents: Iterable[Document], folder: str | PathLike[str]) -> Written:
    """Write `entities.tsv` (with the entity ids in a column `code`) and `texts/NAME.txt`."""
    table = Path(folder) / "entities.tsv"
    written = Written(paths=[table])
    with text_file(table) as file:
        file.write("\t".join((*HEADER, "code")) + "\n")
        for document in documents:
            if not document.text:
                written.drop("document without text")
                continue
            written.drop_fields(document, ("entity_id",))
            name = file_name(document.document_id, written)
            path = Path(folder) / "texts" / f"{name}.txt"
            write_text(path, document.text)
            file.writelines(_rows(document, name, written))
            written.paths.append(path)
            written.documents += 1
            written.mentions += len(document.mentions)
    return written


def _rows(document: Document, name: str, written: Written) -> Iterable[str]:
    for number, mention in enumerate(document.mentions, 1):
        surface = one_line(document.text[mention.start : mention.end])
        type_ = one_line(mention.type).strip()
        entity_id = entity_of(one_line(mention.entity_id or ""))
        written.drop("white space in a type", type_ != mention.type)
        written.drop("entity_id", entity_id != mention.entity_id)
        row = (name, f"T{number}", type_, str(mention.start), str(mention.end), surface, entity_id or "")
        yield "\t".join(row) + "\n"
