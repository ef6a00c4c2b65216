"""Thresholds of types that are moved by documents which were set apart from training."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rayner.data.schema import Document
from rayner.errors import CheckpointError, InputError, RecipeError
from rayner.metrics.score_calibration import ScoreCalibration
from rayner.metrics.spans import score_spans
from rayner.metrics.thresholds import HALF_WAY
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.recognizer.calibration import BELOW, FILE, load
from rayner.tasks.recognizer.predictor import Recognizer
from rayner.tasks.recognizer.task import RecognizerOptions, RecognizerTask
from tests.tasks.small import DOCUMENTS, NESTED, corpus, found, recognizer, trained

SETTINGS = {"fraction": 0.1, "thresholds": True}


CUTS = {"PER": -1.0, "ORG": 0.5, "LOC": 1.0}
"""How far from the model's own threshold the mentions of each type begin."""


def made(task: RecognizerTask, model: Any, count: int = 1) -> list[Document]:
    """Documents whose mentions are the spans that the model scores above the cuts."""
    lower = predict(task.predictor(model).shifted(-BELOW), corpus((*DOCUMENTS, *NESTED)))
    kept = [
        replace(d, mentions=tuple(m for m in d.mentions if (m.margin or 0) > CUTS[m.type])) for d in lower
    ]
    return [replace(d, document_id=f"{d.document_id}-{i}") for i in range(count) for d in kept]


@pytest.fixture(scope="module", params=[{}, {"start_weight": 0.2, "end_weight": 0.3}])
def moved(request: pytest.FixtureRequest) -> tuple[RecognizerTask, Any, list[Document]]:
    task = recognizer(calibration=SETTINGS, decoding={"overlap": "nested", **request.param})
    model = trained(task, corpus((*DOCUMENTS, *NESTED)), steps=15)
    documents = made(task, model, 20)
    task.calibrate(model, documents)
    return task, model, documents


def thresholds(task: RecognizerTask) -> dict[str, float]:
    assert task.calibration is not None
    return dict(task.calibration.thresholds)


def test_each_threshold_moves_towards_where_the_mentions_of_its_type_begin(moved: Any) -> None:
    task, model, documents = moved
    support = Counter(m.type for d in documents for m in d.mentions)
    lower = list(predict(plainly(task, model).shifted(-BELOW), documents))
    assert support
    for name, count in support.items():
        margins = sorted(m.margin or 0 for d in lower for m in d.mentions if m.type == name)
        below = max((m for m in margins if m <= CUTS[name]), default=-math.inf)
        above = min(m for m in margins if m > CUTS[name])
        best = thresholds(task).get(name, 0.0) * (count + HALF_WAY) / count
        assert below - 1e-4 <= best <= above + 1e-4 or below == -math.inf


def plainly(task: RecognizerTask, model: Any) -> Recognizer:
    """The recognizer as if nothing had been fitted."""
    fitted, task.calibration = task.calibration, None
    found = task.predictor(model)
    task.calibration = fitted
    return found


def test_found_is_what_lies_above_the_moved_thresholds(moved: Any) -> None:
    task, model, documents = moved
    shifts = thresholds(task)
    assert shifts
    answers = found(task, model, documents[:8])
    lower = list(predict(plainly(task, model).shifted(-BELOW), documents[:8]))
    for answer, candidates in zip(answers, lower, strict=True):
        expected = {
            (m.start, m.end, m.type): (m.margin or 0) - shifts.get(m.type, 0.0)
            for m in candidates.mentions
            if (m.margin or 0) > shifts.get(m.type, 0.0)
        }
        margins = {(m.start, m.end, m.type): m.margin for m in answer.mentions}
        assert margins == pytest.approx(expected, abs=1e-4)
    before = list(predict(plainly(task, model), documents[:8]))
    f1 = [score_spans(documents[:8], answer, task.names)["f1"] for answer in (answers, before)]
    assert f1[0] > f1[1]


def test_what_else_is_said_of_spans_is_of_the_moved_thresholds(moved: Any) -> None:
    task, model, _ = moved
    recognizer_of = task.predictor(model)
    document = corpus()[0]
    (window,) = recognizer_of.prepare(document)
    with torch.inference_mode():
        ((_, scores),) = recognizer_of.scores([window])[0]
        (selected,) = recognizer_of.forward([window])
    assert selected
    for kind, first, last, margin in selected:
        cell = scores.span[0, kind, first, last - first] - scores.span_threshold[0, kind]
        assert cell.item() == pytest.approx(margin, abs=1e-5)


def test_a_type_that_was_not_learned_has_its_own_threshold(moved: Any) -> None:
    task, model, _ = moved
    new = task.recipe.types[0].model_copy(update={"name": "new"})
    asked = task.predictor(model, RecognizerOptions(types=(new,), shift=-BELOW))
    margins = [m.margin for d in predict(asked, corpus()) for m in d.mentions]
    lower = predict(plainly(task, model).shifted(-BELOW), corpus())
    assert margins == [m.margin for d in lower for m in d.mentions if m.type == task.names[0]]
    assert margins


def test_a_checkpoint_keeps_them_and_its_card_shows_them(moved: Any, tmp_path: Path) -> None:
    task, model, _ = moved
    shifts = thresholds(task)
    save_checkpoint(tmp_path / "best", task, model, {})
    stored = load(tmp_path / "best")
    assert stored is not None
    assert stored.thresholds == shifts
    card = (tmp_path / "best" / "README.md").read_text()
    assert all(f"| {name} | {shift:+.2f} |" in card for name, shift in shifts.items())


def test_fitting_again_starts_from_the_model_alone(moved: Any) -> None:
    task, model, documents = moved
    shifts = thresholds(task)
    task.calibrate(model, documents)
    assert thresholds(task) == shifts


def test_a_calibration_without_moved_thresholds_is_stored_as_before() -> None:
    task = recognizer(calibration={"fraction": 0.1})
    model = trained(task, corpus(), steps=25)
    task.calibrate(model, corpus())
    assert isinstance(task.calibration, ScoreCalibration)
    assert set(task.calibration.to_json()) == {"pooled", "types"}
    assert task.about() == []


def test_a_damaged_threshold_is_an_error(tmp_path: Path) -> None:
    pooled = '{"knots": [0.0], "log_odds": [0.0], "below": 1.0, "above": 1.0}'
    (tmp_path / FILE).write_text(f'{{"pooled": {pooled}, "types": {{}}, "thresholds": {{"PER": NaN}}}}')
    with pytest.raises(CheckpointError, match=f"{FILE}: cannot be read"):
        load(tmp_path)


def test_thresholds_need_documents_that_are_set_apart() -> None:
    with pytest.raises(RecipeError, match="thresholds need documents that are set apart"):
        recognizer(calibration={"thresholds": True})


def test_thresholds_that_are_moved_twice_are_moved_by_both() -> None:
    task = recognizer(decoding={"overlap": "nested"})
    predictor = task.predictor(trained(task, corpus(), steps=15), RecognizerOptions(shift=-1000.0))
    margins = [
        [m.margin for d in predict(moved, corpus()) for m in d.mentions if m.type == "PER"]
        for moved in (
            predictor.with_thresholds({"PER": 0.25}).with_thresholds({"PER": 0.5}),
            predictor.with_thresholds({"PER": 0.75}),
        )
    ]
    assert margins[0]
    assert margins[0] == pytest.approx(margins[1], abs=1e-4)


def test_who_lowers_thresholds_may_not_ask_for_all_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayner.tasks.recognizer.predictor.MOST_FOUND", 10)
    task = recognizer(decoding={"overlap": "nested"})
    predictor = task.predictor(trained(task, corpus(), steps=15), RecognizerOptions(shift=-1000.0))
    with pytest.raises(InputError, match="lets more than 10 spans of a few windows through"):
        list(predict(predictor, corpus()))
