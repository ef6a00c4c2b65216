from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from importlib.resources import files
from pathlib import Path

import pytest

from rayner.data.readers import jsonl
from rayner.data.schema import Document, Entity, Mention

CORPUS = Path(str(files("rayner") / "examples" / "software"))
SPLITS = ("train", "dev", "test")
NAMED = {"Software": "sw-", "Language": "lang-", "Organization": "org-"}
SHARED = {"amazon web services", "cyberark", "datev", "oracle", "salesforce", "swift", "wsl"}


@pytest.fixture(scope="module")
def entities() -> dict[str, Entity]:
    lines = (CORPUS / "knowledge_base.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    found = [Entity(**{**row, "aliases": tuple(row["aliases"])}) for row in rows]
    assert len({entity.entity_id for entity in found}) == len(found)
    return {entity.entity_id: entity for entity in found}


@pytest.fixture(scope="module")
def owners(entities: dict[str, Entity]) -> dict[str, list[Entity]]:
    """Name or alias without regard to case -> entities."""
    found: dict[str, list[Entity]] = defaultdict(list)
    for entity in entities.values():
        for name in (entity.name, *entity.aliases):
            found[name.casefold()].append(entity)
    return found


@pytest.fixture(scope="module")
def mentions() -> dict[str, list[tuple[Document, Mention]]]:
    """The mentions of each split, of all types."""
    found = {}
    for split in SPLITS:
        (unit,) = jsonl.units([CORPUS / f"{split}.jsonl"])
        reading = jsonl.read(unit)
        assert not reading.rejects
        assert not reading.ignored
        found[split] = [(d, m) for d in reading.documents for m in d.mentions]
    return found


@pytest.fixture(scope="module")
def named(mentions: dict[str, list[tuple[Document, Mention]]]) -> list[tuple[str, Mention]]:
    """Surface and mention, of the types that the knowledge base covers."""
    return [(d.text[m.start : m.end], m) for s in SPLITS for d, m in mentions[s] if m.type in NAMED]


def test_size_and_fields(entities: dict[str, Entity]) -> None:
    assert len(entities) >= 130
    assert sum(bool(entity.aliases) for entity in entities.values()) >= 100
    assert {entity.type for entity in entities.values()} == set(NAMED)
    for entity in entities.values():
        assert entity.type is not None
        assert re.fullmatch(NAMED[entity.type] + r"[a-z0-9]+(-[a-z0-9]+)*", entity.entity_id)
        assert entity.description, entity.entity_id
        assert entity.description.endswith("."), entity.entity_id
    assert len({entity.description for entity in entities.values()}) >= 0.95 * len(entities)


def test_a_name_belongs_to_one_entity_but_for_the_documented_ones(owners: dict[str, list[Entity]]) -> None:
    assert {name for name, found in owners.items() if len(found) > 1} == SHARED
    for found in owners.values():
        assert len({entity.type for entity in found}) == len(found)
    readme = (CORPUS / "README.md").read_text(encoding="utf-8").casefold()
    assert all(f"`{name}`" in readme for name in SHARED)


def test_links_are_the_names_of_the_knowledge_base(
    named: list[tuple[str, Mention]], owners: dict[str, list[Entity]]
) -> None:
    """A mention is linked to the entity of its type that owns its surface, if there is one."""
    for surface, mention in named:
        found = [e.entity_id for e in owners.get(surface.casefold(), []) if e.type == mention.type]
        assert [mention.entity_id] == (found or [None]), surface


def test_only_the_types_of_the_knowledge_base_are_linked(
    mentions: dict[str, list[tuple[Document, Mention]]], entities: dict[str, Entity]
) -> None:
    linked = [m for split in SPLITS for _, m in mentions[split] if m.entity_id is not None]
    assert {m.type for m in linked} == set(NAMED)
    assert {m.entity_id for m in linked} == set(entities)


def test_nil_and_aliases_have_their_share(
    named: list[tuple[str, Mention]], entities: dict[str, Entity]
) -> None:
    surfaces = {(m.type, surface): m.entity_id for surface, m in named}
    nil = sum(entity_id is None for entity_id in surfaces.values())
    assert 0.15 * len(surfaces) <= nil <= 0.25 * len(surfaces)
    linked = [(surface, entities[m.entity_id]) for surface, m in named if m.entity_id is not None]
    assert sum(surface != entity.name for surface, entity in linked) >= 0.4 * len(linked)


def test_an_ambiguous_name_is_told_apart_in_the_corpus(named: list[tuple[str, Mention]]) -> None:
    linked = defaultdict(set)
    for surface, mention in named:
        linked[surface].add(mention.entity_id)
    for name in ("CyberArk", "DATEV", "Oracle", "Salesforce", "WSL"):
        assert len(linked[name]) == 2, name


def test_the_readme_counts_what_is_there(
    mentions: dict[str, list[tuple[Document, Mention]]], entities: dict[str, Entity]
) -> None:
    readme = (CORPUS / "README.md").read_text(encoding="utf-8")
    seen = {m.entity_id for _, m in mentions["train"]}
    for split in SPLITS:
        found = [m for _, m in mentions[split] if m.type in NAMED]
        linked = [m for m in found if m.entity_id is not None]
        new = 0 if split == "train" else sum(m.entity_id not in seen for m in linked)
        assert f"| `{split}.jsonl` | {len(linked)} | {len(found) - len(linked)} | {new} |" in readme
    types = Counter(entity.type for entity in entities.values())
    aliases = sum(len(entity.aliases) for entity in entities.values())
    assert f"{len(entities)} entities with {aliases} aliases" in readme
    for type_, number in types.items():
        assert f"{number} of type {type_}" in readme
