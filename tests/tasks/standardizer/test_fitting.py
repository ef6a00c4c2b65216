"""What is fitted on held-out mentions, and what is said where nothing can be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rayner.config import IndexSettings
from rayner.data.mention_strings import MentionString
from rayner.data.schema import Entity
from rayner.losses.distances import Distance
from rayner.metrics.nil import NIL, RIGHT, WRONG, evidence
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
        ([("toothbrush", ()), ("quinoa", ())], 6, "all 2 mentions to fit on are without an entity"),
        ([("Andriod", ("pg",)), ("zug", ())], 6, "no first candidate of 1 held-out mentions is right"),
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


def test_a_calibration_of_an_earlier_version_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nil = {
        "means": [0, 0],
        "scales": [1, 1],
        "weights": [1, 1],
        "intercept": 0,
        "thresholds": {"balanced": 0.4},
    }
    (tmp_path / "standardizer.json").write_text(json.dumps({"weight": 0.7, "nil": nil}))
    assert Fitted.load(tmp_path) == Fitted(0.7, None)
    (said,) = caplog.messages
    assert "standardizer.json: its NIL calibration is from an earlier version" in said
    assert "train again" in said


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
