"""More entities of one name than there are candidates: the first of the index are found, in any batch."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

from rayner.config import IndexSettings
from rayner.data.schema import Entity
from rayner.retrieval import entity_index
from rayner.retrieval.build import build_index
from rayner.retrieval.combiner import Combiner, Weight
from tests.retrieval.letters import Letters

NAMES = ["Ada Smith" if number % 3 else f"Jo {number} of Ur" for number in range(450)]
BASE = [Entity(str(number), name) for number, name in enumerate(NAMES)]
CROWD = [entity.entity_id for entity in BASE if entity.name == "Ada Smith"]


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("weight", [0.0, 0.5, math.inf, Combiner(1, 2, 1, 1, 0)])
@pytest.mark.parametrize("search", ["exact", "ivf", "hnsw"])
def test_the_first_of_many_with_one_name_are_found(
    monkeypatch: pytest.MonkeyPatch, search: Literal["exact", "ivf", "hnsw"], weight: Weight, pruned: bool
) -> None:
    if pruned:
        monkeypatch.setattr(entity_index, "MOST_SCORED", 0)
    index = build_index(BASE, Letters(), IndexSettings(search=search, abbreviations=False), "cosine")
    others = [f"Jo {number}" for number in range(40)]
    for texts in (["Ada Smith"], [*others, "Ada Smith"]):
        vectors = Letters()(texts)
        found = index.search(texts, vectors, 9, weight)[-1]
        assert [one.entity_id for one in found] == CROWD[:9]
        assert len({(one.score, one.matched, one.name) for one in found}) == 1
        barred = index.search(texts, vectors, 9, weight, [CROWD[1:8]] * len(texts))[-1]
        assert [one.entity_id for one in barred] == [CROWD[0], *CROWD[8:16]]
        assert [one.score for one in barred] == [one.score for one in found]


def test_what_is_nearer_comes_before_them() -> None:
    base = [*BASE, Entity("near", "Ada Smithe")]
    index = build_index(base, Letters(), IndexSettings(abbreviations=False), "cosine")
    (found,) = index.search(["Ada Smithe"], Letters()(["Ada Smithe"]), 5, 0.5)
    assert [one.entity_id for one in found] == ["near", *CROWD[:4]]
    assert np.diff([one.score for one in found]).tolist()[1:] == [0, 0, 0]
