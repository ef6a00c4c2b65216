"""BioC, XML and JSON (Comeau et al. 2013): collections of documents, their passages, and annotations in them.

A document's text is that of its passages, or of their sentences, with a line end between two that do not
touch. Relations are ignored and counted; discontinuous annotations are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any
from xml.etree import ElementTree

from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample, entity_of, in_order
from rayner.data.readers.json_rows import LONG_BYTES
from rayner.data.readers.offsets import explain, holds
from rayner.data.schema import Document, Mention
from rayner.errors import CorpusError

_IDS = ("identifier", "mesh", "ncbi gene", "normalized_id", "concept_id", "id")
"""Under which corpora keep an annotation's entity, case ignored."""
_PUBTATOR_3 = "PubTator3"
"""Where the JSON of PubTator 3 has its documents."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A passage or sentence: where it begins in the file's offsets and in our text."""

    offset: int
    start: int
    text: str


def matches(sample: Sample) -> bool:
    """Whether a collection begins: an element of XML, or a JSON object with documents and passages; or a JSON
    object that is a document."""
    start = "\n".join(sample.lines).lstrip()
    if start.startswith("<"):
        return "<collection" in start or "BioC.dtd" in start
    lists_documents = '"documents"' in start or f'"{_PUBTATOR_3}"' in start
    if start[:1] not in ("{", "["):
        return False
    if not lists_documents:
        return '"passages"' in start and '"infons"' in start
    # A line for each document, the first of which may be longer than a sample.
    lines = sample.lines if '"passages"' in start else files.sample(sample.path, LONG_BYTES).lines
    return any('"passages"' in line for line in lines)


def read(unit: FileUnit) -> Reading:
    """The documents of a file; those without an id are named `NAME:NUMBER`."""
    reading = Reading()
    (path,) = unit.paths
    for number, document in enumerate(_documents(files.read_bytes(path), path), 1):
        document_id = f"{unit.name}:{number}"
        if isinstance(document, Mapping) and document.get("id") not in (None, ""):
            document_id = str(document["id"])
        where = f"{path}: document {document_id}"
        try:
            if not isinstance(document, Mapping):
                raise TypeError(f"{document!r:.40} is no object")
            _add(document, document_id, where, reading)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            what = f"no field {error}" if isinstance(error, KeyError) else str(error)
            reading.reject(where, f"not a document of BioC: {what}", "correct the document", document_id)
    return reading


def _documents(data: bytes, path: str) -> Iterator[Any]:
    if not data.strip():
        raise CorpusError(path, "an empty file", "remove it, or restore its content")
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        try:
            collection = ElementTree.fromstring(data)
        except (ElementTree.ParseError, ValueError, LookupError) as error:
            place = getattr(error, "position", (1,))[0]
            raise CorpusError(f"{path}:{place}", f"not XML ({error})", "restore the file") from None
        yield from map(_from_xml, collection.iter("document"))
        return
    text = files.decode(data, path).removeprefix("\ufeff")
    try:
        found = _objects(text)
        for one in found if isinstance(found, list) else [found]:
            if "passages" in one:
                yield one
            else:
                yield from one[_PUBTATOR_3 if _PUBTATOR_3 in one else "documents"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise CorpusError(path, f"not a collection of BioC ({error})", "restore the file") from None


def _objects(text: str) -> Any:
    """The value, or of several lines that are one each, all."""
    try:
        return json.loads(text)
    except ValueError:
        lines = [line for line in text.split("\n") if line.strip()]
        try:
            first = json.loads(lines[0])
        except ValueError:
            first = None
        if not isinstance(first, dict):
            raise
    return [first, *map(json.loads, lines[1:])]


def _from_xml(element: ElementTree.Element) -> dict[str, Any]:
    """An element as the JSON form has it."""
    found: dict[str, Any] = {
        f"{name}s": [_from_xml(child) for child in element.findall(name)]
        for name in ("passage", "sentence", "annotation", "relation")
    }
    infons: dict[str, list[str]] = {}
    for child in element.findall("infon"):
        infons.setdefault(child.get("key", ""), []).append(child.text or "")
    found["infons"] = infons
    found["locations"] = [dict(child.attrib) for child in element.findall("location")]
    for name in ("id", "offset", "text"):
        if element.find(name) is not None:
            found[name] = element.findtext(name)
    return found


def _add(document: Mapping[str, Any], document_id: str, where: str, reading: Reading) -> None:
    text = ""
    blocks: list[_Block] = []
    sentences: list[tuple[int, int]] = []
    annotations: list[tuple[Mapping[str, Any], list[_Block]]] = []
    for passage in document["passages"]:
        given = passage.get("sentences") or ()
        parts = () if passage.get("text") else given
        first = len(blocks)
        for part in parts or [passage]:
            offset, own = _whole(part["offset"]), part.get("text") or ""
            end = blocks[-1].offset + len(blocks[-1].text) if blocks else offset
            text += "\n" if offset != end else ""
            if offset - end not in (0, 1):
                reading.repaired["space between passages made one line end"] += 1
            blocks.append(_Block(offset, len(text), own))
            text += own
            if parts:
                sentences += [(blocks[-1].start, len(text))] if own else []
                annotations += [(one, [blocks[-1]]) for one in part.get("annotations") or ()]
        for holder in [passage] if parts else [passage, *given]:
            annotations += [(one, blocks[first:]) for one in holder.get("annotations") or ()]
        reading.ignored["relation"] += sum(len(one.get("relations") or ()) for one in (passage, *given))
        reading.ignored["sentence beside the text of its passage"] += 0 if parts else len(given)
    annotations += [(one, blocks) for one in document.get("annotations") or ()]
    reading.ignored["relation"] += len(document.get("relations") or ())
    mentions = []
    for annotation, near in annotations:
        try:
            mention = _mention(annotation, chain(near, blocks), text, (where, document_id), reading)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            what = f"not an annotation of BioC: {annotation!r:.60} ({type(error).__name__}: {error})"
            reading.reject(where, what, "correct the annotation", document_id)
        else:
            mentions += [mention] if mention else []
    if any(passage.get("text") and passage.get("sentences") for passage in document["passages"]):
        # Of such a passage both may have one; elsewhere one that is there twice was written twice.
        mentions = list(dict.fromkeys(mentions))
    known = tuple(sentences) if len(sentences) == sum(bool(block.text) for block in blocks) else ()
    if not known:
        reading.ignored["sentence beside passages that have none"] += len(sentences)
    reading.add(Document(document_id, text, in_order(mentions), sentences=known or None), where)


def _whole(number: Any) -> int:
    """An offset or a length: in XML it is text."""
    if isinstance(number, float) and not number.is_integer():
        raise ValueError(f"{number} is no whole number")
    return int(number)


def _joined(value: Any) -> str:
    """The value of an infon, which may be there several times, as entity ids are."""
    return "|".join(str(one) for one in value if one is not None) if isinstance(value, list) else str(value)


def _mention(
    annotation: Mapping[str, Any],
    blocks: Iterable[_Block],
    text: str,
    of: tuple[str, str],
    reading: Reading,
) -> Mention | None:
    where, document_id = of
    given = annotation.get("infons") or {}
    infons = {str(key).lower(): _joined(value) for key, value in given.items() if value is not None}
    locations = annotation.get("locations") or []
    if not locations:
        reading.ignored["annotation without a place"] += 1
        return None
    if len(locations) != 1:
        what = f"a mention in {len(locations)} parts"
        reading.reject(where, what, "keep one part of it, or leave it out", document_id)
        return None
    offset, length = _whole(locations[0]["offset"]), _whole(locations[0]["length"])
    inside = (b for b in blocks if b.offset <= offset and offset + length <= b.offset + len(b.text))
    block = next(inside, None)
    start = offset if block is None else offset - block.offset + block.start
    surface = annotation.get("text")
    if block is None or (surface is not None and not holds(text, start, start + length, surface, reading)):
        told = explain(text, start, start + length, surface or "")
        reading.reject(where, *told, document_id)
        return None
    entity_id = next((infons.pop(name) for name in _IDS if name in infons), "")
    type_ = infons.pop("type", "")
    for name in infons:
        reading.ignored[f"infon {name}"] += 1
    return Mention(start, start + length, type_, entity_of(entity_id))
