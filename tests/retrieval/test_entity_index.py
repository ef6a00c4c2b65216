"""Search against a slow loop that scores every entity."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rayner.config import IndexSettings
from rayner.data.schema import Entity
from rayner.errors import InputError, KnowledgeBaseError
from rayner.retrieval import candidates
from rayner.retrieval.build import build_index
from rayner.retrieval.dense import DenseSide
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.names import names_of
from tests.retrieval.by_definition import PLAIN, bases, names, slow
from tests.retrieval.letters import ENTITIES, Letters


def search(index: EntityIndex, texts: Sequence[str], k: int, weight: float, exclude=None):
    return index.search(texts, Letters()(texts), k, weight, exclude)


@given(
    base=bases,
    text=names,
    k=st.integers(1, 15),
    weight=st.sampled_from([0.0, 0.4, 3.0, math.inf]),
    distance=st.sampled_from(["cosine", "euclidean", "squared_euclidean"]),
    excluded=st.sets(st.integers(0, 12)),
)
def test_search_equals_scoring_every_entity(base, text, k, weight, distance, excluded) -> None:
    entities = [Entity(str(i), of[0], tuple(of[1:])) for i, of in enumerate(base)]
    ids = [str(i) for i in excluded]
    (found,) = search(build_index(entities, Letters(), PLAIN, distance), [text], k, weight, [ids])
    expected = slow(entities, text, weight, distance, ids)
    assert len({f.entity_id for f in found}) == len(found) == min(k, len(expected))
    best = sorted(expected.values(), reverse=True)[:k]
    tolerance = {"cosine": 1e-5, "euclidean": 1e-4, "squared_euclidean": 1e-3}[distance]
    np.testing.assert_allclose([f.score for f in found], best, atol=tolerance)
    for f in found:
        assert f.score == pytest.approx(expected[f.entity_id], abs=tolerance)
        assert f.score == pytest.approx(
            f.lexical if math.isinf(weight) else f.dense + weight * f.lexical, abs=1e-5
        )


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_of_entities_with_one_name_the_first_is_found_first(
    weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal rows of a matrix may have products that differ in the last bit."""
    of_pairs = DenseSide.similarities

    def uneven(side: DenseSide, queries: Tensor, query: np.ndarray, row: np.ndarray) -> np.ndarray:
        return of_pairs(side, queries, query, row) + np.arange(len(row), dtype=np.float32) * 1e-6

    monkeypatch.setattr(DenseSide, "similarities", uneven)
    entities = [Entity(f"{turn} {name}", name) for turn in range(3) for name in ("java", "linux")]
    found = search(build_index(entities, Letters(), PLAIN, "cosine"), ["jav", "linu"], 6, weight)
    assert [[f.entity_id for f in of_query[:3]] for of_query in found] == [
        ["0 java", "1 java", "2 java"],
        ["0 linux", "1 linux", "2 linux"],
    ]


def test_small_pools_give_enough_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "POOL", 2)
    monkeypatch.setattr(candidates, "DEPTH", 1)
    crowd = Entity("crowd", "aaaa", tuple("a" * n for n in range(5, 60)))
    others = [Entity(f"E{i}", f"b{i} c") for i in range(9)]
    index = build_index([crowd, *others], Letters(), PLAIN, "cosine")
    (found,) = search(index, ["aaaaa"], 4, 0.0)
    assert len(found) == 4
    assert found[0].entity_id == "crowd"
    (found,) = search(index, ["aaaaa"], 3, 0.5, [["crowd", "E1", "unknown"]])
    assert len(found) == 3
    assert not {"crowd", "E1"} & {f.entity_id for f in found}


def test_candidates_of_one_side_are_scored_by_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "POOL", 1)
    monkeypatch.setattr(candidates, "DEPTH", 1)
    base = [Entity(str(i), name) for i, name in enumerate(["abcd", "dcba", "acbd", "xyz", "zyx"])]
    index = build_index(base, Letters(), PLAIN, "cosine")
    expected = slow(base, "abcd", 1.0, "cosine")
    for found in search(index, ["abcd"], 2, 1.0)[0]:
        assert found.score == pytest.approx(expected[found.entity_id], abs=1e-5)


def test_the_best_by_both_sides_are_found_where_each_side_has_others_first() -> None:
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefgh"), 12)) for _ in range(3000)]
    vectors = rng.normal(size=(len(texts), 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    entities = [Entity(str(i), text) for i, text in enumerate(texts)]
    index = build_index(entities, lambda _: vectors, PLAIN, "cosine")
    sums = vectors @ vectors[0] + index.lexical.scores([texts[1]])[0]
    (found,) = index.search([texts[1]], vectors[:1], 64, 1.0)
    assert len({f.entity_id for f in found} & {str(i) for i in np.argsort(-sums)[:64]}) >= 63


def test_the_name_that_matches_is_the_one_told() -> None:
    index = build_index(ENTITIES, Letters(), IndexSettings(), "cosine")
    found = search(index, ["mammary cancer", "HD", "Diabetes mellitus"], 1, 0.5)
    assert [(f[0].entity_id, f[0].matched) for f in found] == [
        ("D2", "mammary cancer"),
        ("D3", "HD"),
        ("D5", "diabetes mellitus"),
    ]
    names = {entity.entity_id: entity.name for entity in ENTITIES}
    assert all(f[0].name == names[f[0].entity_id] for f in found)


def test_abbreviations_are_expanded_for_the_lexical_side() -> None:
    base = [Entity("1", "adenomatous polyposis coli", ("APC",)), Entity("2", "attenuated apc-like disorder")]
    lexical = {}
    for abbreviations in (True, False):
        index = build_index(base, Letters(), IndexSettings(abbreviations=abbreviations), "cosine")
        lexical[abbreviations] = search(index, ["attenuated APC"], 2, math.inf)[0]
    score = {key: {f.entity_id: f.score for f in found} for key, found in lexical.items()}
    assert score[True]["1"] > score[False]["1"] + 0.1


@pytest.mark.parametrize("text", ["", "   ", "...!?", "a" * 10_000, "神経線維腫症", "\n"])
def test_any_text_has_candidates(text: str) -> None:
    index = build_index(ENTITIES, Letters(), IndexSettings(), "cosine")
    (found,) = search(index, [text], 2, 0.7)
    assert len(found) == 2
    assert all(math.isfinite(f.score) for f in found)


def test_the_order_of_queries_and_their_number_do_not_matter() -> None:
    index = build_index(ENTITIES, Letters(), IndexSettings(), "euclidean")
    texts = [name for e in ENTITIES for name in (e.name, *e.aliases)] * 3
    together = search(index, texts, 3, 0.5)
    for text, found in zip(texts, together, strict=True):
        (alone,) = search(index, [text], 3, 0.5)
        assert [f.entity_id for f in alone] == [f.entity_id for f in found]
        np.testing.assert_allclose([f.score for f in alone], [f.score for f in found], atol=1e-5)


def test_nothing_to_search_or_to_find() -> None:
    index = build_index(ENTITIES[:1], Letters(), IndexSettings(), "cosine")
    assert index.search([], np.empty((0, 32), np.float32), 3, 0.5) == []
    assert search(index, ["breast"], 0, 0.5) == [[]]
    assert search(index, ["breast"], 3, 0.5, [["D1"]]) == [[]]
    assert [f.entity_id for f in search(index, ["breast"], 3, 0.5)[0]] == ["D1"]


def test_names_are_kept_with_their_letters_composed() -> None:
    names = names_of(
        [Entity("1", unicodedata.normalize("NFD", "데이터"), ("데이터", "cafe\u0301", "caf\u00e9"))],
        IndexSettings(),
    )
    assert names.texts.to_pylist() == ["데이터", "caf\u00e9"]


def test_equal_names_are_encoded_once() -> None:
    base = [Entity("1", "aspirin", ("ASA",)), Entity("2", "ASA", ("aspirin", " ASA ", ""))]
    encode = Letters()
    index = build_index(base, encode, PLAIN, "cosine")
    assert sorted(encode.encoded) == ["ASA", "aspirin"]
    assert len(index.names) == 4


def test_names_alone() -> None:
    index = build_index(ENTITIES, Letters(), IndexSettings(aliases=False, max_aliases=1), "cosine")
    assert [index.names.text(i) for i in range(2)] == ["adenomatous polyposis coli", "breast cancer"]
    assert index.abbreviations == {"HD": "Huntington disease"}


@pytest.mark.parametrize(
    ("base", "settings", "what"),
    [
        ([], IndexSettings(), "no entity"),
        ([Entity("1", " ")], IndexSettings(), "entity 1: has no name"),
        ([Entity("1", "a"), Entity("1", "b")], IndexSettings(), "entity 1: occurs twice"),
        ([Entity("1", "a", ("b", "c"))], IndexSettings(max_aliases=1), "entity 1: has 2 aliases, more than"),
    ],
)
def test_bases_that_cannot_be_indexed(base, settings, what) -> None:
    with pytest.raises(KnowledgeBaseError, match=what):
        build_index(base, Letters(), settings, "cosine")


def test_vectors_that_are_none() -> None:
    with pytest.raises(InputError, match="not finite"):
        build_index(ENTITIES, lambda t: np.full((len(t), 3), np.nan, np.float32), PLAIN, "cosine")
    with pytest.raises(InputError, match="shape"):
        build_index(ENTITIES, lambda t: np.ones((1, 3), np.float32), PLAIN, "cosine")
    index = build_index(ENTITIES, Letters(), PLAIN, "cosine")
    with pytest.raises(InputError, match="the index has 32"):
        index.search(["a"], np.ones((1, 3), np.float32), 1, 0.5)
