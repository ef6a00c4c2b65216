"""Lexical candidates of a large index against the cosines of all its names."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import IndexSettings
from rayner.data.schema import Entity
from rayner.retrieval import entity_index, pruned
from rayner.retrieval.build import build_index
from rayner.retrieval.lexical import AllScores, LexicalSide, fit_lexical
from rayner.retrieval.pruned import PrunedScores
from tests.retrieval.letters import ENTITIES, Letters

NAMES = [f"{a}{b} {c}{b}" for a in ("ba", "co", "dy", "fe") for b in ("lo", "mi", "nu") for c in "prstvw"]
OWNER = np.arange(len(NAMES)) // 3
FIRST = np.flatnonzero(np.diff(OWNER, prepend=-1))
SIDE = fit_lexical(NAMES, (1, 4))

texts = st.text("abcdeflmnopyé. ", max_size=12)
spellings = st.lists(st.lists(texts, min_size=1, max_size=2), min_size=1, max_size=4)


@given(spellings, st.data())
def test_cosines_of_pairs_are_those_of_the_whole_product_to_the_last_bit(asked, data) -> None:
    names = np.array(data.draw(st.lists(st.integers(0, len(NAMES) - 1), min_size=1, max_size=9)))
    text = np.repeat(np.arange(len(asked)), len(names))
    name = np.tile(names, len(asked))
    exact = AllScores(SIDE, asked, FIRST).of(text, name)
    np.testing.assert_array_equal(PrunedScores(SIDE, asked, OWNER).of(text, name), exact)


@given(spellings, st.integers(1, 30))
def test_enough_entities_are_found_and_without_a_last_bound_the_nearest_are_among_them(asked, count) -> None:
    needed = np.full(len(asked), count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruned, "RESTS", (0.6, 0.4, 0.0))
        found = PrunedScores(SIDE, asked, OWNER).candidates(needed)
    for entities, of_one in zip(found, asked, strict=True):
        assert len(entities) >= min(count, len(FIRST))
        assert len(set(entities.tolist())) == len(entities)
        scores = np.max([np.maximum.reduceat(SIDE.scores([s])[0], FIRST) for s in of_one], axis=0)
        # What is left out is no nearer than the last of those that are needed.
        last = np.sort(scores)[::-1][min(count, len(scores)) - 1]
        others = np.setdiff1d(np.arange(len(FIRST)), entities)
        assert (scores[others] <= last + 1e-6).all()


def test_a_small_pool_grows_until_there_are_enough_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruned, "POOL", 1)
    monkeypatch.setattr(pruned, "DEPTH", 1)
    (found,) = PrunedScores(SIDE, [["balo"]], np.zeros(len(NAMES), np.int32)).candidates(np.array([1]))
    assert found.tolist() == [0]
    (found,) = PrunedScores(SIDE, [["balo"]], OWNER).candidates(np.array([5]))
    assert len(found) >= 5


def test_few_postings_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = SIDE.vectorizer.transform(["balo pmi"])
    counts = np.diff(SIDE.postings.indptr)[queries.indices]
    order = np.argsort(counts, kind="stable")
    weights, counts = queries.data[order], counts[order]
    monkeypatch.setattr(pruned, "RESTS", (0.5, 0.2, 0.0))
    steps = pruned._steps(weights, counts)
    assert steps[-1] == (len(weights), 0)
    for (end, left), rest in zip(steps, pruned.RESTS, strict=True):
        assert left == pytest.approx(np.linalg.norm(weights[end:]), abs=1e-6)
        assert left <= rest < np.linalg.norm(weights[end - 1 :])
    monkeypatch.setattr(pruned, "MOST_POSTINGS", int(counts[:2].sum()))
    assert pruned._steps(weights, counts) == [(2, 0)]
    monkeypatch.setattr(pruned, "MOST_POSTINGS", 1)
    assert pruned._steps(weights, counts) == [(1, 0)]


def test_of_the_nearest_64_names_nearly_all_are_candidates() -> None:
    words = ["".join(two) for two in product(("ba", "co", "di", "fu", "ga", "hy", "jo", "vex"), repeat=2)]
    names = [f"{one} {other}" for one, other in product(words, repeat=2)]
    side, asked = fit_lexical(names, (1, 4)), [name[:2] + name[3:] for name in names[::83]]
    found = PrunedScores(side, [[text] for text in asked], np.arange(len(names))).candidates(
        np.full(len(asked), 64)
    )
    assert max(map(len, found)) < len(names) / 4
    of_all = side.scores(asked)
    last = np.sort(of_all)[:, -64]
    near = [np.count_nonzero(row[of] >= least) for row, of, least in zip(of_all, found, last, strict=True)]
    assert sum(min(count, 64) for count in near) / (64 * len(asked)) >= 0.99


def test_who_keeps_what_was_found_searches_a_string_once(monkeypatch: pytest.MonkeyPatch) -> None:
    side, asked = fit_lexical(NAMES, (1, 4)), [["balo"], ["conu smi", "conus mi"], ["balo", "bal"]]
    needed = np.array([3, 2, 3])
    expected = [PrunedScores(side, asked, OWNER).candidates(needed + more) for more in (0, 5, 0)]
    side.found = {}
    searched: list[int] = []
    monkeypatch.setattr(side, "sums", lambda *given: searched.append(1) or LexicalSide.sums(side, *given))
    counts = []
    for of_all, more in zip(expected, (0, 5, 0), strict=True):
        found = PrunedScores(side, asked, OWNER).candidates(needed + more)
        assert [one.tolist() for one in found] == [one.tolist() for one in of_all]
        counts.append(len(searched))
    # Of another number others may be found.
    assert 4 <= counts[0] < counts[1] == counts[2]
    assert len(side.found) == 8
    monkeypatch.setattr(pruned, "MOST_KEPT", 8)
    PrunedScores(side, [["more"]], OWNER).candidates(needed[:1])
    assert len(side.found) == 8


@pytest.mark.parametrize("weight", [0.5, math.inf])
def test_a_large_index_answers_as_a_small_one(monkeypatch: pytest.MonkeyPatch, weight: float) -> None:
    base = [Entity(str(i), NAMES[i], (NAMES[-1 - i],)) for i in range(len(NAMES) // 2)]
    base += ENTITIES
    asked = ["balo", "conu smi", "APC", "", "...", "attenuated HD", "a" * 600]
    index = build_index(base, Letters(), IndexSettings(), "cosine")
    expected = index.search(asked, Letters()(asked), 3, weight, [["3"]] * len(asked))
    monkeypatch.setattr(entity_index, "MOST_SCORED", 0)
    found = index.search(asked, Letters()(asked), 3, weight, [["3"]] * len(asked))
    assert [[f.score for f in of] for of in found] == [[f.score for f in of] for of in expected]
    exact = build_index(base, Letters(), IndexSettings(search="exact"), "cosine")
    monkeypatch.setattr(entity_index, "PrunedScores", None)
    assert exact.search(asked, Letters()(asked), 3, weight, [["3"]] * len(asked)) == expected


def test_the_last_score_is_that_of_the_last_entity_not_of_another_name_of_the_first() -> None:
    scores = object.__new__(PrunedScores)
    scores._entity = np.array([0, 0, 1])
    entities, least = scores._nearest(np.array([0.9, 0.8, 0.3], np.float32), 2)
    assert (entities.tolist(), round(least, 3)) == ([0, 1], 0.3)
