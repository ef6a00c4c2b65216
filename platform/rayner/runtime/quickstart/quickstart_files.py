"""What the quick start makes of a part of the example corpus, so that each system can read it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from rayner.data.fine_types import SEPARATOR, as_types
from rayner.data.knowledge_bases import read_knowledge_base
from rayner.data.readers import read_corpus
from rayner.data.schema import UNTYPED, Document, Entity, Mention, document_to_row
from rayner.files.whole import write_json_lines


def write_mentions(corpus: Path, types: Collection[str], out: Path) -> None:
    """The mentions of these types as JSON lines `{"mention", "entity_id", "type"}`.

    A corpus in which every entity of the knowledge base is linked says of all other mentions that they are
    NIL. Read as a corpus, they would be left out.
    """
    rows = (
        {"mention": document.text[m.start : m.end], "entity_id": m.entity_id, "type": m.type}
        for document in read_corpus(corpus).documents
        for m in document.mentions
        if m.type in types
    )
    write_json_lines(out, rows)


def read_fine_types(path: Path) -> dict[str, str]:
    """Entity id -> its fine type, from a YAML file of fine types, each with the ids of its entities."""
    listed: Mapping[str, Sequence[str]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {entity_id: name for name, ids in listed.items() for entity_id in ids}


def write_typed(corpus: Path, fine_types: Mapping[str, str], out: Path, plain: Collection[str] = ()) -> None:
    """The documents with their linked mentions, each with the fine type of its entity (distant supervision,
    Mintz et al. 2009).

    Args:
        plain: types without entities, whose mentions have their type as their fine type (`/version`).
    """
    own = {name: f"{SEPARATOR}{name.casefold()}" for name in plain}

    def typed(document: Document) -> Document:
        found = ((m, fine_types.get(m.entity_id or "") or own.get(m.type)) for m in document.mentions)
        mentions = tuple(replace(m, types=as_types([name])) for m, name in found if name)
        return replace(document, mentions=mentions)

    write_json_lines(out, (document_to_row(typed(d)) for d in read_corpus(corpus).documents))


def write_typed_names(base: Path, fine_types: Mapping[str, str], out: Path) -> None:
    """A document for each entity of a knowledge base that lists its names, all of them mentions with its fine
    type: so the entities that no document mentions are learned, too."""

    def listed(entity: Entity) -> Document:
        names, mentions, text = (entity.name, *entity.aliases), list[Mention](), ""
        for name in names:
            text += ", " if text else ""
            types = as_types([fine_types[entity.entity_id]])
            mentions.append(Mention(len(text), len(text) + len(name), entity.type or UNTYPED, types=types))
            text += name
        return Document(entity.entity_id, text, tuple(mentions))

    write_json_lines(out, (document_to_row(listed(e)) for e in read_knowledge_base([base]).entities))


def write_texts(corpus: Path, out: Path) -> Path:
    """The texts of the documents and nothing else, a file each, in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    for document in read_corpus(corpus).documents:
        (out / f"{document.document_id}.txt").write_text(document.text, encoding="utf-8")
    return out
