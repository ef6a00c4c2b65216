"""Approximate search reaches the recall that it was asked for, and says what it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rayner.config import IndexSettings
from rayner.data.schema import Entity
from rayner.retrieval import build, dense, exact
from rayner.retrieval.approximate import _queries, build_approximate, measure_recall
from rayner.retrieval.build import build_index, index_with, text_side, without_entities
from rayner.retrieval.dense import DenseSide
from rayner.retrieval.kmeans import ROUNDS, kmeans


def clustered(rows: int, normalized: bool) -> np.ndarray:
    rng = np.random.default_rng(3)
    middles = rng.normal(size=(40, 24))
    vectors = middles[rng.integers(0, 40, rows)] + 0.5 * rng.normal(size=(rows, 24))
    if normalized:
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32)


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_it_reaches_the_recall(kind, distance) -> None:
    cosine = distance == "cosine"
    vectors = clustered(3000, cosine)
    built = build_approximate(vectors, kind, 0.95, cosine)
    assert built.recall >= 0.95
    dense = DenseSide(vectors, distance, built, device="cpu")
    queries = dense.prepare(clustered(3000, False)[::30] + np.float32(0.1))
    found, true = built.nearest(queries.numpy(), 10), dense.nearest(queries, 10, approximately=False)
    assert measure_recall(found, true, queries.numpy(), vectors) > 0.9


def test_many_queries_are_compared_with_all_vectors_where_lists_take_longer() -> None:
    vectors = clustered(3000, True)
    built = replace(build_approximate(vectors, "ivf", 0.0, True), effort=16)
    assert [built.is_slower(queries) for queries in (0, 1, 20, 40)] == [False, False, False, True]
    assert not replace(built, effort=8).is_slower(100)
    assert not replace(built, kind="hnsw", effort=1024).is_slower(100)
    dense = DenseSide(vectors, "cosine", built, device="cpu")
    queries = dense.prepare(clustered(3000, False)[::30] + np.float32(0.1))
    np.testing.assert_array_equal(dense.nearest(queries, 10), dense.nearest(queries, 10, approximately=False))
    np.testing.assert_array_equal(dense.nearest(queries[:1], 10), built.nearest(queries[:1].numpy(), 10))


def test_recall_is_the_share_that_was_found() -> None:
    vectors = np.array([[9, 9], [0, 0], [5, 0], [1, 0], [0, 8], [0, 9], [0, 20]], np.float32)
    queries = np.array([[0, 0], [0, 9]], np.float32)
    found, true = np.array([[1, 2, -1], [4, 5, 6]]), np.array([[1, 3], [5, 4]])
    assert measure_recall(found, true, queries, vectors) == 0.75


def test_of_equal_vectors_it_does_not_matter_which_are_found() -> None:
    """As of a name that many entities have."""
    vectors = np.repeat(clustered(100, True), 30, axis=0)
    built = build_approximate(vectors, "ivf", 0.99, True)
    assert built.recall >= 0.99
    assert built.effort < built.index.nlist / 4


def test_little_effort_is_found_out() -> None:
    vectors = clustered(3000, True)
    easy, hard = (build_approximate(vectors, "ivf", recall, True) for recall in (0.0, 1.0))
    assert easy.effort == 1
    assert easy.recall < hard.recall == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_few_vectors(kind) -> None:
    for rows in (1, 2, 5):
        built = build_approximate(clustered(rows, True), kind, 0.99, True)
        for asked in (10, 2**31):
            found = built.nearest(clustered(rows, True)[:1], asked)[0].tolist()
            assert sorted(found)[-rows:] == list(range(rows))


def test_an_index_over_it_finds_distinct_entities_even_where_lists_are_short() -> None:
    vectors = clustered(400, True)
    base = [Entity(f"E{i}", f"name {i}", (f"other {i}",)) for i in range(200)]
    rows = {name: vectors[i] for i, name in enumerate(n for e in base for n in (e.name, *e.aliases))}
    index = build_index(
        base,
        lambda texts: np.stack([rows[t] for t in texts]),
        IndexSettings(search="ivf", recall=0),
        "cosine",
    )
    assert index.dense.approximate is not None
    assert index.dense.approximate.effort == 1
    (found,) = index.search(["name 7"], vectors[14:15], 150, 0.0)
    assert len({f.entity_id for f in found}) == 150
    fewer = without_entities(index, ["E7"])
    assert fewer.dense.approximate is not None
    assert fewer.search(["name 7"], vectors[14:15], 1, 0.0)[0][0].entity_id != "E7"


def test_auto_is_exact_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(texts) -> np.ndarray:
        return clustered(len(texts), True)

    base = [Entity(str(i), f"n{i}") for i in range(50)]
    assert build_index(base, encode, IndexSettings(), "cosine").dense.approximate is None
    monkeypatch.setattr(build, "MOST_EXACT", 49)
    approximate = build_index(base, encode, IndexSettings(), "cosine").dense.approximate
    assert approximate is not None
    assert approximate.kind == "ivf"


@pytest.mark.parametrize(
    ("device", "room", "made"), [("cuda", True, 0), ("cuda", False, 1), ("cpu", True, 1)]
)
def test_beside_a_model_on_a_gpu_with_room_nothing_approximate_is_made(
    monkeypatch: pytest.MonkeyPatch, device: str, room: bool, made: int
) -> None:
    monkeypatch.setattr(build, "MOST_EXACT", 49)
    monkeypatch.setattr(dense, "_has_room", lambda *_: room)
    side = text_side([Entity(str(i), f"n{i}") for i in range(50)], IndexSettings())
    asked: list[str] = []

    def encode(texts: Sequence[str]) -> np.ndarray:
        return clustered(len(texts), True)

    def building(*arguments: Any) -> Any:
        asked.append("once")
        return build_approximate(*arguments)

    monkeypatch.setattr(build, "build_approximate", building)
    index_with(side, encode, IndexSettings(), "cosine", torch.device(device))
    assert len(asked) == made


def test_centroids_lie_in_the_clusters() -> None:
    middles = torch.eye(4) * 10
    rows = middles.repeat(50, 1) + 0.01 * torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    found = kmeans(rows, 16)
    assert found.shape == (16, 4)
    assert torch.cdist(found, middles).amin(1).max() < 1
    assert torch.isfinite(kmeans(torch.zeros(5, 3), 5)).all()


def test_the_lists_are_the_same_whoever_assigns_the_vectors() -> None:
    vectors, shared = clustered(3000, True), list[int]()

    def backwards(rows: Tensor, parts: Sequence[np.ndarray], work: Callable[[np.ndarray], Tensor]) -> None:
        shared.append(len(rows))
        exact.alone(rows, parts[::-1], work)

    one = build_approximate(vectors, "ivf", 0.95, True)
    other = build_approximate(vectors, "ivf", 0.95, True, backwards)
    assert shared == [3000] * (ROUNDS + 1) + [1024]
    assert (one.effort, one.recall) == (other.effort, other.recall)
    np.testing.assert_array_equal(one.nearest(vectors[:50], 10), other.nearest(vectors[:50], 10))


def test_the_queries_of_a_measurement_lie_half_the_length_of_a_vector_beside_it() -> None:
    vectors = np.array([[100.0, 0.0, 0.0]], np.float32)
    assert np.linalg.norm(_queries(vectors, False).numpy() - vectors) == pytest.approx(50, rel=1e-4)
