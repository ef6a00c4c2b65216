"""Thresholds and hierarchies, against their definitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import TypeDecoding
from rayner.data.fine_types import ancestors
from rayner.data.schema import Document, Mention
from rayner.metrics.typing import scores_of, type_tables
from rayner.tasks.typer.predictor import (
    FLOOR,
    GRID,
    GoldScore,
    TypeStage,
    decode,
    logit,
    probability,
    tuned_per_type,
    tuned_threshold,
)

NAMES = ("/a", "/a/b", "/a/b/c", "/d", "/d/e", "f")
SCORES = st.dictionaries(st.sampled_from(NAMES), st.floats(0.01, 0.99), min_size=1)


def settings(**values: object) -> TypeDecoding:
    return TypeDecoding.model_validate(values)


@given(SCORES, st.sampled_from(["add_parents", "drop_orphans", "none"]), st.booleans())
def test_types_are_consistent_and_in_order(scored: dict[str, float], hierarchy: str, always: bool) -> None:
    above = [name for name, score in scored.items() if score > 0.5]
    found = decode(scored, above, settings(hierarchy=hierarchy, always_best=always), NAMES)
    names = [name for name, _ in found]
    assert len(set(names)) == len(names)
    assert [score for _, score in found] == sorted((s for _, s in found), reverse=True)
    if always:
        assert max(scored.values()) == found[0][1]
    elif not above:
        assert found == ()
    if hierarchy == "none":
        assert set(above) <= set(names) <= set(scored)
    else:
        score_of = dict(found)
        assert all(score_of[above_it] >= score for name, score in found for above_it in ancestors(name))
    if hierarchy == "add_parents":
        assert set(above) <= set(names)
    if hierarchy == "drop_orphans" and not always:
        assert set(names) <= set(above)


def test_a_corpus_without_fine_types_says_nothing_of_a_typer() -> None:
    stage = TypeStage(typer_of("/person", "/place"))
    found = Document("d", "Ada", (Mention(0, 3, "PER", types=(("/person", 0.9),)),))
    for type_, accuracy in (("PER", None), ("/person", 1.0)):
        gold = Document("d", "Ada", (Mention(0, 3, type_),))
        assert stage.evaluate([found], [gold])["types_accuracy"] == accuracy


def typer_of(*types: str) -> Any:
    """What says of a typer which types it knows."""
    return SimpleNamespace(fine_types=types, forward_cost=0, tokens_per_batch=1)


def test_parents_that_are_no_types_are_not_added() -> None:
    assert decode({"/a/b": 0.9}, ["/a/b"], settings(), ["/a/b"]) == (("/a/b", 0.9),)
    kept = decode({"/a/b": 0.9}, ["/a/b"], settings(hierarchy="drop_orphans", always_best=False), ["/a/b"])
    assert kept == (("/a/b", 0.9),)


def test_an_orphan_is_dropped() -> None:
    scored = {"/a/b": 0.7, "/d": 0.9}
    found = decode(scored, list(scored), settings(hierarchy="drop_orphans"), NAMES)
    assert found == (("/d", 0.9),)


MENTIONS = st.lists(st.tuples(SCORES, st.lists(st.sampled_from(NAMES), min_size=1)), min_size=1, max_size=8)


def typed(given: list[tuple[dict[str, float], list[str]]]) -> list[GoldScore]:
    return [GoldScore(scored, names) for scored, names in given]


def drawn(random: np.random.Generator, count: int) -> list[GoldScore]:
    """Mentions with scores, gold types and what somebody looked for in them."""

    def some(least: int) -> list[str]:
        return random.choice(NAMES, random.integers(least, len(NAMES)), replace=False).tolist()

    return [
        GoldScore(
            {name: random.uniform(0.01, 0.99) for name in some(1)},
            some(1),
            None if random.random() < 0.5 else NAMES[:4],
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("hierarchy", ["add_parents", "drop_orphans", "none"])
def test_the_tuned_threshold_has_the_best_macro_f1(hierarchy: str, always: bool) -> None:
    chosen = settings(hierarchy=hierarchy, always_best=always)

    def f1(mentions: list[GoldScore], known: set[str], value: float) -> float:
        answers = [
            decode(one.scored, [name for name, p in one.scored.items() if p > value], chosen, known)
            for one in mentions
        ]
        kept = [[n for n, _ in types if m.counts(n)] for m, types in zip(mentions, answers, strict=True)]
        counts = type_tables([one.gold for one in mentions], kept)
        sums = counts.of(np.ones(len(counts.types), bool)).terms().sum(0)
        return round(float(scores_of(sums)["macro_f1"]), 12)

    random = np.random.default_rng(0)
    for count in range(12):
        mentions, known = drawn(random, count), {name for name in NAMES if random.random() < 0.6}
        found = {float(value): f1(mentions, known, value) for value in GRID}
        equals = [value for value, score in found.items() if score == max(found.values())]
        assert tuned_threshold(mentions, chosen, known) == min(equals, key=lambda v: abs(v - chosen.value))


@given(MENTIONS)
def test_each_type_has_its_best_f1(given: list[tuple[dict[str, float], list[str]]]) -> None:
    thresholds = tuned_per_type(typed(given), settings(), NAMES)
    assert thresholds.shape == (len(NAMES),)

    def f1(name: str, threshold: float) -> float:
        found = [name in s and logit(s[name]) > threshold for s, _ in given]
        right = [name in names for _, names in given]
        both = sum(f and r for f, r in zip(found, right, strict=True))
        return 2 * both / max(1, sum(found) + sum(right))

    for name, threshold in zip(NAMES, thresholds, strict=True):
        if any(s.get(name, 0.0) > FLOOR and name in names for s, names in given):
            tried = [max(logit(s[name]) - 1e-9, logit(FLOOR)) for s, _ in given if name in s]
            assert f1(name, threshold) == pytest.approx(max(f1(name, t) for t in tried), abs=1e-9)
        else:
            assert threshold == 0


def test_no_threshold_is_where_nobody_looked() -> None:
    """Between two right answers far apart, half of the gap below the lower one is far below the floor."""
    (threshold,) = tuned_per_type(typed([({"a": 0.05}, ["a"]), ({"a": 0.99}, ["a"])]), settings(), ["a"])
    assert logit(FLOOR) <= threshold < logit(0.05)


def test_a_probability_that_rounds_to_one_is_a_score_like_others() -> None:
    rows = [({"a": 0.9}, []), *[({"a": 1.0}, ["a"])] * 5]
    (threshold,) = tuned_per_type(typed(rows), settings(), ["a"])
    assert logit(0.9) < threshold < logit(1.0) < 17
    alone = [({"a": p}, ["a"]) for p in (0.3, 0.4, 0.6, 1.0)]
    (threshold,) = tuned_per_type(typed(alone), settings(), ["a"])
    assert logit(FLOOR) <= threshold < logit(0.3)


@pytest.mark.parametrize("always", [True, False])
def test_what_nobody_looked_for_raises_no_threshold(always: bool) -> None:
    """Half of the mentions are of a corpus that was annotated for people alone; some of them are poets."""
    of_all = typed([({"person": 0.9, "poet": 0.6}, ["person", "poet"])] * 4)
    of_all += typed([({"person": 0.9, "poet": 0.3}, ["person"])] * 4)
    of_people = [
        GoldScore({"person": 0.9, "poet": 0.7}, one.gold, frozenset({"person"})) for one in of_all[4:] * 3
    ]
    chosen = settings(hierarchy="none", always_best=always)
    assert 0.3 <= tuned_threshold([*of_all, *of_people], chosen, ["person", "poet"]) < 0.6
    _, poet = tuned_per_type([*of_all, *of_people], chosen, ["person", "poet"])
    assert logit(0.3) <= poet < logit(0.6)


def test_probabilities_do_not_overflow() -> None:
    assert probability(np.array([-1e9, 0.0, 1e9])).tolist() == pytest.approx([0, 0.5, 1])
    assert probability(np.array([logit(FLOOR)]))[0] == pytest.approx(FLOOR)


def test_of_equal_thresholds_the_nearest_to_the_usual_one_is_taken() -> None:
    sure = GoldScore({"a": 0.99}, ["a"])
    assert abs(tuned_threshold([sure], TypeDecoding(), ["a"]) - TypeDecoding().value) < 0.011
