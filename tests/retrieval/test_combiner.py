"""What a combiner makes of both sides, and the order that a search by it gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Entity
from rayner.retrieval.build import build_index
from rayner.retrieval.combiner import Combiner, features
from tests.retrieval.by_definition import PLAIN, bases, names, slow
from tests.retrieval.letters import Letters

COMBINER = Combiner(dense=2.0, lexical=3.0, dense_margin=0.5, lexical_margin=1.5, intercept=-1.0)
scores = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0])


def margin(values: list[float], i: int) -> float:
    others = values[:i] + values[i + 1 :]
    return values[i] - max(others) if others else 0.0


@given(st.lists(st.lists(st.tuples(scores, scores), min_size=1, max_size=4), min_size=1, max_size=4))
def test_margins_are_over_the_best_of_the_others(queries: list[list[tuple[float, float]]]) -> None:
    expected = [
        (dense, lexical, margin([d for d, _ in of], i), margin([x for _, x in of], i))
        for of in queries
        for i, (dense, lexical) in enumerate(of)
    ]
    dense, lexical = np.array([pair for of in queries for pair in of]).T
    first = np.cumsum([0, *(len(of) for of in queries[:-1])])
    np.testing.assert_array_equal(features(dense, lexical, first), expected)


@given(base=bases, text=names, k=st.integers(1, 15), excluded=st.sets(st.integers(0, 12)))
def test_a_search_equals_combining_every_entity(base, text, k, excluded) -> None:
    entities = [Entity(str(i), of[0], tuple(of[1:])) for i, of in enumerate(base)]
    ids = [str(i) for i in excluded]
    index = build_index(entities, Letters(), PLAIN, "cosine")
    (found,) = index.search([text], Letters()([text]), k, COMBINER, [ids])
    dense, lexical = (slow(entities, text, weight, "cosine", ids) for weight in (0.0, math.inf))
    sides = [list(side.values()) for side in (dense, lexical)]
    expected = {
        id_: 2 * d + 3 * x + 0.5 * margin(sides[0], i) + 1.5 * margin(sides[1], i) - 1
        for i, (id_, d, x) in enumerate(zip(dense, *sides, strict=True))
    }
    np.testing.assert_allclose(
        [f.score for f in found], sorted(expected.values(), reverse=True)[:k], atol=1e-4
    )
    for f in found:
        assert f.score == pytest.approx(expected[f.entity_id], abs=1e-4)


def test_it_is_read_as_it_was_written() -> None:
    assert Combiner.from_json(COMBINER.to_json()) == COMBINER
    with pytest.raises(KeyError):
        Combiner.from_json({"dense": 1.0})


def test_the_weight_of_a_side_is_that_of_its_score_and_its_margin() -> None:
    assert Combiner(1.0, 1.0, 1.0, 5.0, 0.0).weight == 3
