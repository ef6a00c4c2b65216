"""Entities in an Arrow table are those that were put there."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from rayner.data.schema import ENTITY_SCHEMA, Entity
from rayner.retrieval import entity_table as module
from rayner.retrieval.entity_table import EntityTable, entity_table
from rayner.retrieval.names import NAMES_SCHEMA, Names

ENTITIES = [
    Entity("a", "Alpha", ("A", "first"), "letter", "the first letter", ("1",)),
    Entity("b", "Beta"),
    Entity("c", "Gamma", ("third",), other_ids=("3", "iii")),
    Entity("d", "Delta", (), None, "a river's mouth"),
    Entity("e", "Epsilon", ("E",)),
]


@pytest.fixture(autouse=True)
def few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 2)


def test_entities_come_back_as_they_were() -> None:
    table = entity_table(iter(ENTITIES))
    assert table.table.schema == ENTITY_SCHEMA
    assert list(table) == ENTITIES
    assert [table[i] for i in range(-5, 5)] == ENTITIES * 2
    for part in (slice(1, 4), slice(3, 1), slice(None, None, 2), slice(-2, None), slice(None, None, -1)):
        assert list(table[part]) == ENTITIES[part]
        assert list(table[part][1:]) == ENTITIES[part][1:]
    with pytest.raises(IndexError):
        table[5]
    assert list(entity_table([])) == []


def test_lists_that_are_null_are_empty() -> None:
    rows = [{"entity_id": "a", "name": "Alpha"}, {"entity_id": "b", "name": "Beta", "aliases": ["B"]}]
    table = EntityTable(entity_table([]).table.from_pylist(rows, schema=ENTITY_SCHEMA))
    assert list(table) == [Entity("a", "Alpha"), Entity("b", "Beta", ("B",))]
    assert sorted(table.texts(aliases=True)) == ["Alpha", "B", "Beta"]


def test_texts_are_names_and_aliases_of_those_rows_alone() -> None:
    table = entity_table(ENTITIES)
    assert sorted(table[1:].texts(aliases=True)) == ["Beta", "Delta", "E", "Epsilon", "Gamma", "third"]
    assert list(table[1:].texts(aliases=False)) == ["Beta", "Gamma", "Delta", "Epsilon"]


def test_entities_are_found_by_id() -> None:
    assert list(entity_table(ENTITIES).of_ids(["c", "z", "a"])) == [ENTITIES[2], ENTITIES[0]]


def test_names_are_written_once() -> None:
    texts, entity = [f"name {number}" for number in range(1000)], range(1000)
    names = Names(pa.table({"text": texts, "entity": pa.array(entity, pa.int32())}, schema=NAMES_SCHEMA))
    assert len(pickle.dumps(names, 5)) < 1.1 * names.table.nbytes + 1000
    again = pickle.loads(pickle.dumps(names, 5))
    assert (again.texts.to_pylist(), again.entity.tolist()) == (texts, list(entity))
