from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from rayner.data.readers import jsonl
from rayner.data.readers.formats import FORMATS
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
        (unit,) = FORMATS["jsonl"].units([CORPUS / f"{split}.jsonl"])
        reading = jsonl.read(unit)
        assert not reading.rejects
        assert not reading.ignored
        found[split] = [(d, m) for d in reading.documents for m in d.mentions]
    return found


@pytest.fixture(scope="module")
def named(mentions: dict[str, list[tuple[Document, Mention]]]) -> list[tuple[str, Mention]]:
    """Surface and mention, of the types that the knowledge base covers, where names are written as it has
    them."""
    return [pair for split in SPLITS for pair in _surfaces(mentions[split], intake=False)]


def _surfaces(mentions: list[tuple[Document, Mention]], intake: bool) -> list[tuple[str, Mention]]:
    """Those of the intake notes, whose writers do not spell as the knowledge base does, or of the others."""
    return [
        (d.text[m.start : m.end], m)
        for d, m in mentions
        if m.type in NAMED and d.document_id.startswith("intake-") == intake
    ]


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
    """A mention is linked to the entity of its type that owns its surface, if there is one (but for the
    intake notes)."""
    for surface, mention in named:
        found = [e.entity_id for e in owners.get(surface.casefold(), []) if e.type == mention.type]
        assert [mention.entity_id] == (found or [None]), surface


def test_only_the_types_of_the_knowledge_base_are_linked(
    mentions: dict[str, list[tuple[Document, Mention]]], entities: dict[str, Entity]
) -> None:
    linked = [m for split in SPLITS for _, m in mentions[split] if m.entity_id is not None]
    assert {m.type for m in linked} == set(NAMED)
    assert {m.entity_id for m in linked} == set(entities)


@pytest.mark.parametrize("split", SPLITS)
def test_intake_notes_write_names_in_ways_that_the_knowledge_base_lacks(
    split: str, mentions: dict[str, list[tuple[Document, Mention]]], owners: dict[str, list[Entity]]
) -> None:
    notes = _surfaces(mentions[split], intake=True)
    linked = [(surface, m.entity_id) for surface, m in notes if m.entity_id is not None]
    unknown = [surface for surface, _ in linked if surface.casefold() not in owners]
    misleading = {
        surface
        for surface, entity_id in linked
        if (found := owners.get(surface.casefold())) and entity_id not in {e.entity_id for e in found}
    }
    readme = (CORPUS / "README.md").read_text(encoding="utf-8")
    counts = (len(linked), len(unknown), len(linked) - len(unknown), len(notes) - len(linked))
    assert f"| `{split}.jsonl` | {' | '.join(map(str, counts))} |" in readme
    assert len(unknown) >= 0.9 * len(linked)
    assert len(misleading) >= 2
    assert 0.1 * len(notes) <= len(notes) - len(linked) <= 0.25 * len(notes)


def test_a_string_of_the_intake_notes_can_mean_several_entities(
    mentions: dict[str, list[tuple[Document, Mention]]],
) -> None:
    meant = defaultdict(set)
    for surface, mention in _surfaces(mentions["test"], intake=True):
        meant[surface].add(mention.entity_id)
    assert len(meant["SF"]) == 2


def test_every_entity_has_one_fine_type_of_its_type(entities: dict[str, Entity]) -> None:
    fine = yaml.safe_load((CORPUS / "fine_types.yaml").read_text(encoding="utf-8"))
    listed = [(entity_id, name) for name, ids in fine.items() for entity_id in ids]
    assert Counter(entity_id for entity_id, _ in listed) == Counter(list(entities))
    for entity_id, name in listed:
        kind = entities[entity_id].type
        assert kind is not None
        assert re.fullmatch(rf"/{kind.casefold()}/[a-z_]+", name), entity_id
    assert f"{len(fine)} fine types" in (CORPUS / "README.md").read_text(encoding="utf-8")


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
