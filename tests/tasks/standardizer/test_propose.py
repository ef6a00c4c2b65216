from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.feature_extraction.text import TfidfVectorizer

from rayner.tasks.standardizer import propose as module
from rayner.tasks.standardizer.predictor import Answer
from rayner.tasks.standardizer.propose import cluster, propose
from tests.tasks.standardizer.small_index import Found, encode

NEAR = Found("my", "MySQL", 0.4)


def nil(text: str, *found: Found) -> Answer:
    return Answer(text, None, 0.4, 0.1, 0.2, found or (NEAR,), "below the threshold of accuracy")  # type: ignore[arg-type]


def random_names(n: int) -> list[str]:
    rng = np.random.default_rng(3)
    roots = ["".join(rng.choice(list("abcdefghij"), 6)) for _ in range(n // 5)]
    return sorted(
        {r + "".join(rng.choice(list("xyz"), rng.integers(0, 3))) for r in roots for _ in range(8)}
    )[:n]


@pytest.mark.parametrize("least", [0.2, 0.5, 0.8])
def test_clusters_are_those_of_average_linkage_over_all_pairs(least: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_CELLS", 7 * 60)
    texts = random_names(60)
    grams = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit_transform(texts).toarray()
    distances = 1 - (encode(texts) @ encode(texts).T + grams @ grams.T) / 2
    np.fill_diagonal(distances, 0)
    labels = fcluster(linkage(squareform(distances, checks=False), "average"), 1 - least, "distance")
    expected = {frozenset(np.flatnonzero(labels == label)) for label in set(labels)}
    found = cluster(texts, encode, least)
    assert {frozenset(rows) for rows in found} == expected
    assert sum(map(len, found)) == len(texts)


def test_parts_too_large_for_a_matrix_are_cut_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_TOGETHER", 5)
    texts = random_names(50)
    found = cluster(texts, encode, 0.05)
    assert sorted(row for rows in found for row in rows) == list(range(50))
    assert max(map(len, found)) <= 5


def test_strings_that_are_all_alike_take_no_memory_for_each_pair():
    rows = np.arange(4000)
    tracemalloc.start()
    (part,) = module._parts(rows, lambda a, b: np.ones((len(a), len(b)), np.float32), 0.5)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert part.tolist() == rows.tolist()
    # All 16 million pairs at once took 990 MB, and four times as much for twice as many strings.
    assert most < 400 * 2**20


def test_proposals_count_mentions_and_name_the_nearest_entity():
    answers = [nil("Kubernetes")] * 2 + [nil("kubernetes "), nil("Kubernets", Found("an", "Android", 0.5))]
    answers += [
        nil("toothbrush"),
        Answer("MySQL", "my", 0.9, 0.5, 0.9, (NEAR,)),
        Answer("", None, -np.inf, 0, 0, ()),
    ]  # type: ignore[arg-type]
    first, second = propose(answers, encode)
    assert first.names == (("Kubernetes", 3), ("Kubernets", 1))
    assert first.nearest == ("an", "Android", 0.5)
    assert first.to_row("new-1") == {
        "entity_id": "new-1",
        "name": "Kubernetes",
        "aliases": ["Kubernets"],
        "mentions": 4,
        "nearest": {"entity_id": "an", "name": "Android", "score": 0.5},
    }
    assert second.names == (("toothbrush", 1),)


def test_nothing_to_propose():
    assert propose([], encode) == []
    assert propose([Answer("", None, -np.inf, 0, 0, ())], encode) == []
    assert [p.names for p in propose([nil("++"), nil("++")], encode)] == [(("++", 2),)]
