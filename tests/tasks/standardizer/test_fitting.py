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
from rayner.metrics.nil import NIL, RIGHT, WRONG
from rayner.retrieval.build import build_index
from rayner.retrieval.entity_index import EntityIndex
from rayner.tasks.standardizer.fitting import WEIGHTS, Fitted, fit
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


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_the_weight_has_the_unit_of_distances(unit: float) -> None:
    settings = IndexSettings(distance="euclidean")
    index = build_index(ENTITIES, lambda texts: unit * encode(texts), settings, "euclidean")
    strings = [MentionString(text, ids) for text, ids in MENTIONS]
    vectors = unit * encode([m.text for m in strings])
    found = index.search([m.text for m in strings], vectors, 32, 1.0)
    spread = np.median([np.std([f.dense for f in of]) for of in found])
    scale = spread / np.median([np.std([f.lexical for f in of]) for of in found])
    weight = fit(index, strings, vectors).weight
    assert np.isclose(weight / scale, WEIGHTS, rtol=1e-3).any()
    assert scale == pytest.approx(unit * _scale_of_unit_vectors(), rel=1e-3)


def _scale_of_unit_vectors() -> float:
    index = build_index(ENTITIES, encode, IndexSettings(distance="euclidean"), "euclidean")
    texts = [text for text, _ in MENTIONS]
    found = index.search(texts, encode(texts), 32, 1.0)
    spreads = [[np.std([getattr(f, side) for f in of]) for of in found] for side in ("dense", "lexical")]
    return float(np.median(spreads[0]) / np.median(spreads[1]))


def fitted_on(index: EntityIndex, mentions: Sequence[tuple[str, tuple[str, ...]]]) -> Fitted:
    strings = [MentionString(text, ids) for text, ids in mentions]
    vectors = encode([m.text for m in strings]) if strings else np.zeros((0, 256), np.float32)
    return fit(index, strings, vectors)


def index_of(entities: Sequence[Entity] = ENTITIES) -> EntityIndex:
    return build_index(entities, encode, IndexSettings(), "cosine")


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


def test_what_was_fitted_is_read_as_it_was(tmp_path: Path) -> None:
    fitted = fitted_on(index_of(), [*UNSEEN, *STRANGERS])
    fitted.save(tmp_path)
    assert Fitted.load(tmp_path) == fitted


def test_a_name_with_two_spaces_is_no_stranger_to_the_index() -> None:
    entities = [*ENTITIES, Entity("pe", "Postgre  Enterprise"), Entity("ms", "My  SQL  Server")]
    index = build_index(entities, encode, IndexSettings(), "cosine")
    strings = [MentionString(text, ids) for text, ids in (*MENTIONS, ("postgre enterprise 9", ("pg",)))]
    assert fit(index, strings, encode([m.text for m in strings])).nil is not None
