"""Ids of mentions, beside those of a knowledge base."""

from __future__ import annotations

import pytest

from rayner.data.entity_ids import entity_of_id

FIND = entity_of_id(
    ["HP:1", "MONDO:1", "MESH:D7", "C5", "D9"], {"613097": "C5", "OMIM:8": "D9", "D7": "D9", "X": "gone"}
)


@pytest.mark.parametrize(
    ("id_", "entity"),
    [
        ("HP:1", "HP:1"),
        ("hp:1", "HP:1"),
        ("MESH:D9", "D9"),
        ("OMIM:613097", "C5"),
        ("8", "D9"),
        ("D7", "D9"),
        ("mesh:D7", "MESH:D7"),
        ("1", None),
        ("GO:1", None),
        ("MESH:8", None),
        ("X", None),
        ("", None),
    ],
)
def test_a_prefix_may_be_missing_but_not_another(id_: str, entity: str | None) -> None:
    assert FIND(id_) == entity
