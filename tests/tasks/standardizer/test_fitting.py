"""What is fitted on held-out mentions, and what is said where nothing can be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rayner.config import IndexSettings
from rayner.data.mention_strings import MentionString
from rayner.data.schema import Entity
from rayner.losses.distances import Distance
from rayner.metrics.earlier_nil import EarlierNil
from rayner.metrics.nil import NIL, OPERATING_POINTS, RIGHT, WRONG, evidence
from rayner.retrieval.build import build_index
from rayner.retrieval.combiner import Combiner
from rayner.retrieval.entity_index import EntityIndex
from rayner.tasks.predict import predict
from rayner.tasks.standardizer.fitting import FEWEST, Fitted, fit
from rayner.tasks.standardizer.predictor import Standardizer
from tests.tasks.standardizer.small_index import ENTITIES, encode

UNSEEN = [("Postgre", ("pg",)), ("mysql 5", ("my",)), ("Andriod", ("an",)), ("nginks", ("ng",))]
STRANGERS = [("toothbrush", ()), ("quinoa", ())]
MENTIONS = [
    ("postgres database", ("pg",)),
    ("My SQL 8", ("my",)),
    ("websphere", ("ws",)),
    ("redhat linux", ("rh",)),
    ("nginx server", ("ng",)),
]
MANY = [
    MentionString(f"{name[:-1]}{end}", (entity.entity_id,))
    for entity in ENTITIES
    for name in (entity.name, *entity.aliases)
    for end in ("x", " 9", " server")
]


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_what_combines_the_sides_has_the_unit_of_distances(unit: float) -> None:
    index = build_index(ENTITIES, lambda texts: unit * encode(texts), IndexSettings(), "euclidean")
    found = fit(index, MANY, unit * encode([m.text for m in MANY])).weight
    assert isinstance(found, Combiner)
    plain = fitted_on(index_of(distance="euclidean"), [(m.text, m.entity_ids) for m in MANY]).weight
    assert isinstance(plain, Combiner)
    assert found.dense == pytest.approx(plain.dense / unit, rel=1e-2)
    assert found.lexical == pytest.approx(plain.lexical, rel=1e-2)
    assert min(found.dense, found.lexical, found.dense_margin, found.lexical_margin) >= 0


def test_the_unit_of_distances_changes_no_answer_where_nothing_is_fitted() -> None:
    """More names than are compared, so that the weight decides which are."""
    entities = [Entity(f"{stem}{i}", f"{stem} {i}") for stem in ("alpha", "beta", "gamma") for i in range(20)]
    texts = ["alpa 3", "beeta 11", "gama 7"]
    mentions = [MentionString(t, (e,)) for t, e in zip(texts, ("alpha3", "beta11", "gamma7"), strict=True)]
    weights, answers = [], []
    for unit in (1.0, 30.0):
        vectors = unit * encode(texts)
        index = build_index(entities, lambda given, u=unit: u * encode(given), IndexSettings(), "euclidean")
        weights.append(fit(index, mentions, vectors).weight)
        answers.append([[f.entity_id for f in of] for of in index.search(texts, vectors, 3, weights[-1])])
    assert weights[1] == pytest.approx(30 * weights[0], rel=0.1)
    assert answers[0] == answers[1]


def test_a_mention_is_asked_by_what_was_fitted_without_it() -> None:
    index, vectors = index_of(), encode([m.text for m in MANY])
    fitted = fit(index, MANY, vectors)
    assert sorted(fitted.fold_of) == sorted(m.text.casefold() for m in MANY)
    texts = [m.text.upper() for m in MANY]
    found = fitted.search_held_out(index, texts, vectors, 3)
    for number, without in enumerate(fitted.without):
        rows = [i for i, m in enumerate(MANY) if fitted.fold_of[m.text.casefold()] == number]
        others = [i for i in range(len(MANY)) if i not in rows]
        assert without == fit(index, [MANY[i] for i in others], vectors[others]).weight
        asked = index.search([texts[i] for i in rows], vectors[rows], 3, without)
        assert [found[i] for i in rows] == asked
    (other,) = fitted.search_held_out(index, ["Zug"], encode(["Zug"]), 3, [["pg"]])
    assert [other] == index.search(["Zug"], encode(["Zug"]), 3, fitted.weight, [["pg"]])


def test_few_mentions_fit_no_more_than_nil() -> None:
    fitted = fitted_on(index_of(), [(m.text, m.entity_ids) for m in MANY[: FEWEST - 1]])
    assert (fitted.weight, fitted.without) == (Fitted().weight, ())
    assert fitted.nil is not None
    assert isinstance(fitted_on(index_of(), [(m.text, m.entity_ids) for m in MANY]).weight, Combiner)


def fitted_on(index: EntityIndex, mentions: Sequence[tuple[str, tuple[str, ...]]]) -> Fitted:
    strings = [MentionString(text, ids) for text, ids in mentions]
    vectors = encode([m.text for m in strings]) if strings else np.zeros((0, 256), np.float32)
    return fit(index, strings, vectors)


def index_of(entities: Sequence[Entity] = ENTITIES, distance: Distance = "cosine") -> EntityIndex:
    return build_index(entities, encode, IndexSettings(), distance)


@pytest.mark.parametrize(
    ("mentions", "entities", "said"),
    [
        ([("toothbrush", ()), ("quinoa", ())], 6, "none with an entity among 2 mentions to fit on"),
        ([("Andriod", ("pg",)), ("zug", ())], 6, "no first candidate of 1 held-out mention is right"),
        ([("postgres ", ("pg",)), ("MySQL", ("my",)), ("zug", ())], 6, "calibrated on names of the index"),
        ([("Postgre", ("pg",)), ("zug", ())], 1, "the index has one entity"),
        ([], 6, "there are no mentions to fit on; name mentions.dev"),
        (UNSEEN, 6, ""),
        ([*UNSEEN, *STRANGERS], 6, ""),
    ],
)
def test_the_log_says_why_nil_is_not_calibrated_or_on_what(
    mentions: list[tuple[str, tuple[str, ...]]], entities: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    fitted = fitted_on(index_of(ENTITIES[:entities]), mentions)
    assert (fitted.nil is not None) == (not said or "calibrated on" in said)
    assert said in caplog.text
    assert len(caplog.messages) == bool(said)


def test_unseen_mentions_are_asked_with_and_without_their_entity_and_beside_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []
    search = EntityIndex.search

    def noted(self: EntityIndex, texts: Any, vectors: Any, *rest: Any, exclude: Any = None) -> Any:
        if exclude is not None:
            asked.extend((text, tuple(ids)) for text, ids in zip(texts, exclude, strict=True))
            np.testing.assert_allclose(vectors, encode(texts), atol=1e-6)
        return search(self, texts, vectors, *rest, exclude=exclude)

    monkeypatch.setattr(EntityIndex, "search", noted)
    index = index_of()
    mentions = [*UNSEEN, ("Ngix", ("rh",)), ("MySQL", ("my",)), *STRANGERS]
    fitted = fitted_on(index, mentions)
    assert fitted.nil is not None
    assert asked[:5] == [*UNSEEN, ("Ngix", ("rh",))]
    near = asked[5:]
    names = {name: e.entity_id for e in ENTITIES for name in (e.name, *e.aliases)}
    assert near
    assert all(ids == (names[text],) for text, ids in near)
    assert ("nginx", ("ng",)) in near
    _, _, outcome, weight = fitted.nil.sample.columns(0.5)
    assert outcome.tolist() == [RIGHT] * 4 + [WRONG] + [NIL] * (5 + len(near) + 2)
    of_nil = 2 * weight[5:]
    assert of_nil[:5].sum() == pytest.approx(0.5)
    assert (of_nil[5:-2].sum(), of_nil[-2:].sum()) == (pytest.approx(0.25), pytest.approx(0.25))


EARLIER: Any = {
    "means": [0.6898500000000001, 0.22246153846153846],
    "scales": [0.24674506580679578, 0.10716035791136715],
    "weights": [1.71004747738224, 0.35805038389506016],
    "intercept": 0.37531278005967883,
    "thresholds": {"balanced": 0.6787201070626042, "high_precision": 0.9, "high_recall": 0.3129027539881408},
}
ANSWERED_EARLIER = [
    (1.0, 0.4, "0x1.ea4e49ce29a11p-1"),
    (0.62, 0.1, "0x1.7e4a7fbde5151p-2"),
    (0.7, np.inf, "0x1.381e48b3c98adp-1"),
    (0.31, 0.005, "0x1.8a8d16dde9f86p-5"),
    (0.75, 0.16, "0x1.48a2d162b0f7fp-1"),
    (0.7, 0.13, "0x1.117908ae33602p-1"),
    (-np.inf, np.inf, "0x0.0p+0"),
    (40.0, 3.0, "0x1.0000000000000p+0"),
]
"""Score, margin and the probability that commit efc2ea2 gave for them."""


def test_a_calibration_of_an_earlier_version_answers_as_it_did(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "standardizer.json").write_text(json.dumps({"weight": 0.7, "nil": EARLIER}))
    fitted = Fitted.load(tmp_path)
    (said,) = caplog.messages
    assert "which no share of NIL changes" in said
    assert isinstance(fitted.nil, EarlierNil)
    for share in (0.1, 0.9):
        thresholds = {name: fitted.nil.threshold(name, share) for name in OPERATING_POINTS}
        for score, margin, expected in ANSWERED_EARLIER:
            given = np.array([[score, margin, 0.5]])
            assert fitted.nil.probability(given, share)[0].hex() == expected
            for name, earlier in zip(OPERATING_POINTS, EARLIER["thresholds"].values(), strict=True):
                is_nil = fitted.nil.log_odds(given)[0, 1] < thresholds[name]
                assert is_nil == (float.fromhex(expected) < earlier)
    texts = ["My SQL 8", "zebra", "Andriod"]
    asked = [a.probability for a in predict(Standardizer(index_of(), encode, 0.7, fitted.nil), texts)]
    balanced = (min(asked) + max(asked)) / 2
    nil = replace(fitted.nil, thresholds={"balanced": balanced})
    for answer in predict(Standardizer(index_of(), encode, 0.7, nil), texts):
        given = np.array([[answer.score, answer.margin, 0.5]])
        assert answer.probability == nil.probability(given)[0]
        is_nil = answer.probability < balanced
        assert answer.entity_id == (None if is_nil else answer.candidates[0].entity_id)
    assert min(asked) < balanced < max(asked)
    fitted.save(tmp_path)
    assert Fitted.load(tmp_path) == fitted


@pytest.mark.parametrize("mentions", [[*UNSEEN, *STRANGERS], [(m.text, m.entity_ids) for m in MANY]])
def test_what_was_fitted_is_read_as_it_was(
    tmp_path: Path, mentions: list[tuple[str, tuple[str, ...]]]
) -> None:
    fitted = fitted_on(index_of(), mentions)
    fitted.save(tmp_path)
    assert Fitted.load(tmp_path) == fitted


def test_a_name_with_two_spaces_is_no_stranger_to_the_index() -> None:
    entities = [*ENTITIES, Entity("pe", "Postgre  Enterprise"), Entity("ms", "My  SQL  Server")]
    index = build_index(entities, encode, IndexSettings(), "cosine")
    strings = [MentionString(text, ids) for text, ids in (*MENTIONS, ("postgre enterprise 9", ("pg",)))]
    assert fit(index, strings, encode([m.text for m in strings])).nil is not None


def test_nil_is_judged_by_both_sides_and_not_by_what_ranks_them() -> None:
    index, vectors = index_of(), encode([m.text for m in MANY])
    fitted = fit(index, MANY, vectors)
    assert isinstance(fitted.weight, Combiner)
    assert fitted.nil is not None
    (answer,) = predict(Standardizer(index, encode, fitted.weight, fitted.nil), ["Postgre 9"])
    sums = [[f.dense + fitted.weight.weight * f.lexical for f in answer.candidates]]
    assert answer.probability == pytest.approx(fitted.nil.probability(evidence(sums))[0])
