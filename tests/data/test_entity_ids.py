"""Ids of mentions, beside those of a knowledge base."""

from __future__ import annotations

import time

import pytest

from rayner.data.entity_ids import entity_of_id
from rayner.data.schema import Entity

FIND = entity_of_id(
    [
        Entity("HP:1", "a"),
        Entity("MONDO:1", "b"),
        Entity("MESH:D7", "c"),
        Entity("C5", "d", other_ids=("613097", "HP:1")),
        Entity("D9", "e", other_ids=("OMIM:8", "D7", "613097", "UMLS:C0000008")),
    ]
)


@pytest.mark.parametrize(
    ("id_", "entity"),
    [
        ("HP:1", "HP:1"),
        ("hp:1", "HP:1"),
        ("MESH:D9", "D9"),
        ("OMIM:613097", "C5"),
        ("8", None),
        ("OMIM:8", "D9"),
        ("C0000008", "D9"),
        ("D7", "D9"),
        ("mesh:D7", "MESH:D7"),
        ("1", None),
        ("GO:1", None),
        ("MESH:8", None),
        ("C5|MESH:D9", None),
        ("HP:1+MESH:D9", None),
        ("X", None),
        ("", None),
    ],
)
def test_a_prefix_may_be_missing_but_not_another(id_: str, entity: str | None) -> None:
    assert FIND(id_) == entity


def test_what_many_ids_have_in_common_is_not_looked_through_for_each_mention() -> None:
    find = entity_of_id(Entity(f"protein{number}:human", "a") for number in range(20_000))
    begun = time.process_time()
    assert not any(find(f"gene{number}:human") for number in range(20_000))
    assert find("human") is None
    assert find("Protein7:human") == "protein7:human"
    # One after the other, 400 million ids took half a minute.
    assert time.process_time() - begun < 3
