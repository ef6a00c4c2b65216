"""Probabilities of margins, on mentions that were drawn from known ones."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document, Mention
from rayner.metrics.judged_mentions import judge_mentions, score_calibration_error
from rayner.metrics.score_calibration import ScoreCalibration, fit_scores

SLOPES = {"PER": 0.3, "LOC": 1.5}


def drawn(seed: int, count: int, name: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Mentions of a type whose log odds are its slope times the margin, less a half."""
    rng = np.random.default_rng(seed)
    margins = rng.normal(2, 3, count)
    return [name] * count, margins, rng.random(count) < probability(name, margins)


def probability(name: str, margins: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(0.5 - SLOPES[name] * margins))


def fitted(*parts: tuple[list[str], np.ndarray, np.ndarray]) -> ScoreCalibration:
    return fit_scores(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def error(calibration: ScoreCalibration, name: str) -> float:
    """The mean difference of a type's probabilities and the true ones."""
    margins = np.random.default_rng(0).normal(2, 3, 4000)
    scores = [calibration.probability(name, margin) for margin in margins]
    return float(np.abs(scores - probability(name, margins)).mean())


def test_each_type_has_its_own_probabilities():
    calibration = fitted(drawn(1, 4000, "PER"), drawn(2, 4000, "LOC"))
    for name, other in (("PER", "LOC"), ("LOC", "PER")):
        assert error(calibration, name) < 0.02
        assert error(fitted(drawn(1, 4000, other)), name) > 0.05


def test_scores_that_jump_at_the_threshold_or_stay_flat_are_learned():
    rng = np.random.default_rng(3)
    margins = rng.uniform(-4, 12, 4000)
    truth = np.where(margins > 0, 0.8, 0.05)
    calibration = fit_scores(["A"] * 4000, margins, rng.random(4000) < truth)
    answered = margins > 0
    scores = np.array([calibration.probability("A", margin) for margin in margins])
    assert np.abs(scores - truth)[answered].mean() < 0.04
    assert np.abs(scores - truth)[margins < -0.5].mean() < 0.04


def test_a_type_with_few_mentions_is_like_the_others():
    calibration = fitted(drawn(1, 4000, "PER"), drawn(2, 4, "LOC"))
    pooled = ScoreCalibration(calibration.pooled)
    assert calibration.mentions == {"PER": 4000, "LOC": 4}
    for margin in (-2.0, 0.0, 3.0):
        own, others = (c.probability("LOC", margin) for c in (calibration, pooled))
        assert own == pytest.approx(others, abs=0.1)
        assert calibration.probability("never seen", margin) == others
    assert error(fitted(drawn(1, 4000, "PER"), drawn(2, 400, "LOC")), "LOC") < error(calibration, "LOC") / 2


ROWS = st.lists(st.tuples(st.sampled_from("ABC"), st.floats(-8, 30), st.booleans()), min_size=1, max_size=40)


@given(ROWS, st.floats(-20, 20), st.floats(-20, 20), st.randoms())
def test_whatever_it_is_fitted_on_scores_rise_with_margins(rows, one: float, other: float, random):
    calibration = fit_scores(*zip(*rows, strict=True))
    low, high = sorted((one, other))
    for name in "ABCD":
        scores = [calibration.probability(name, margin) for margin in (low, high)]
        assert 0 < scores[0] <= scores[1] < 1
        if high - low > 1e-3 and scores[0] > 1e-6 and scores[1] < 1 - 1e-6:
            assert scores[0] < scores[1]
    assert ScoreCalibration.from_json(json.loads(json.dumps(calibration.to_json()))) == calibration
    random.shuffle(rows)
    assert fit_scores(*zip(*rows, strict=True)) == calibration


def test_all_right_is_not_certain():
    calibration = fit_scores(["A"] * 30, [1.0] * 30, [True] * 30)
    assert 0.9 < calibration.probability("A", 1.0) < 0.99


def test_a_map_that_falls_is_refused():
    values = fit_scores(["A"], [1.0], [True]).to_json()
    values["pooled"]["above"] = -1
    with pytest.raises(ValueError, match="no rising map"):
        ScoreCalibration.from_json(values)


def test_mentions_are_judged_where_their_type_was_annotated():
    def mention(start: int, name: str, score: float | None) -> Mention:
        return Mention(start, start + 2, name, score=score, margin=score)

    gold = [
        Document("a", "", (mention(0, "A", None), mention(9, "B", None))),
        Document("b", "", (), annotated_types=("B",)),
    ]
    found = [
        Document("b", "", (mention(0, "A", 0.5), mention(3, "B", 0.75))),
        Document("a", "", (mention(0, "A", 0.25), mention(0, "B", 0.5), mention(9, "B", None))),
    ]
    judged = judge_mentions(gold, found)
    assert list(judged.type) == ["A", "B", "B"]
    assert list(judged.score) == list(judged.margin) == [0.25, 0.5, 0.75]
    assert list(judged.right) == [True, False, False]
    assert score_calibration_error(gold, found, ["A"]) == {"calibration_error": 0.75}
    assert score_calibration_error(gold, gold) == {}


def test_types_that_are_added_bring_their_thresholds_and_no_others() -> None:
    base = replace(fitted(drawn(0, 50, "PER")), thresholds={"PER": -0.5})
    other = replace(fitted(drawn(1, 50, "PER"), drawn(2, 50, "LOC")), thresholds={"PER": 9.0, "LOC": -1.0})
    assert base.with_types(other, ["LOC"]).thresholds == {"PER": -0.5, "LOC": -1.0}
