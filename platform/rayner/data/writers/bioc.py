"""BioC, XML and JSON (Comeau et al. 2013): each document one passage, with its mentions as annotations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from rayner.data.readers.base import entity_of
from rayner.data.schema import Document
from rayner.data.writers.base import Losses, Written
from rayner.files.whole import text_file

_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
    "<collection><source>rayner</source><date></date><key></key>\n"
)


def write_bioc(documents: Iterable[Document], path: str | PathLike[str]) -> Written:
    """Write one file of XML. Characters that XML cannot hold become U+FFFD, so that offsets stay."""
    return _write(documents, path, (_HEAD, "", "</collection>\n"), _as_xml)


def write_bioc_json(documents: Iterable[Document], path: str | PathLike[str]) -> Written:
    """Write one file of JSON."""
    head = '{"source": "rayner", "date": "", "key": "", "infons": {}, "documents": [\n'

    def as_json(document: dict[str, Any], losses: Losses) -> str:
        return json.dumps(document, ensure_ascii=False)

    return _write(documents, path, (head, ",", "]}\n"), as_json)


def _write(
    documents: Iterable[Document],
    path: str | PathLike[str],
    frame: tuple[str, str, str],
    form: Callable[[dict[str, Any], Losses], str],
) -> Written:
    head, between, end = frame
    written = Written(paths=[Path(path)])
    with text_file(Path(path)) as file:
        file.write(head)
        for document in documents:
            losses = Losses(document.document_id)
            losses.drop_fields(document, ("entity_id",))
            file.write(between if written.documents else "")
            file.write(form(_document(document, losses), losses) + "\n")
            written.add(document.mentions, losses)
        file.write(end)
    return written


def _document(document: Document, losses: Losses) -> dict[str, Any]:
    annotations = []
    for number, mention in enumerate(document.mentions, 1):
        infons = {"type": mention.type}
        if mention.entity_id is not None and entity_of(mention.entity_id) == mention.entity_id:
            infons["identifier"] = mention.entity_id
        elif mention.entity_id is not None:
            losses.drop_mentions("entity_id", [mention])
        annotations.append(
            {
                "id": str(number),
                "infons": infons,
                "text": document.text[mention.start : mention.end],
                "locations": [{"offset": mention.start, "length": mention.end - mention.start}],
            }
        )
    passage = {"offset": 0, "infons": {}, "text": document.text, "sentences": [], "annotations": annotations}
    found = {"id": document.document_id, "infons": {}, "passages": [{**passage, "relations": []}]}
    return {**found, "annotations": [], "relations": []}


def _as_xml(document: dict[str, Any], losses: Losses) -> str:
    (passage,) = document["passages"]
    infons = [value for annotation in passage["annotations"] for value in annotation["infons"].values()]
    lost = sum(len(_NOT_IN_XML.findall(text)) for text in (document["id"], passage["text"], *infons))
    losses.drop("character that XML cannot hold", lost)
    parts = [f"<document><id>{_plain(document['id'])}</id>\n"]
    parts += [f"<passage><offset>0</offset><text>{_plain(passage['text'])}</text>\n"]
    for annotation in passage["annotations"]:
        (location,) = annotation["locations"]
        infons = [f"<infon key={quoteattr(k)}>{_plain(v)}</infon>" for k, v in annotation["infons"].items()]
        place = f'<location offset="{location["offset"]}" length="{location["length"]}"/>'
        content = f"{''.join(infons)}{place}<text>{_plain(annotation['text'])}</text>"
        parts.append(f'<annotation id="{annotation["id"]}">{content}</annotation>\n')
    return "".join([*parts, "</passage></document>"])


def _plain(text: str) -> str:
    # A bare carriage return would be read as a line end.
    return escape(_NOT_IN_XML.sub("\ufffd", text), {"\r": "&#13;"})
