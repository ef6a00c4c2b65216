"""Scores that are fitted on documents which were set apart from training."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rayner
from rayner.data.schema import Document, Mention
from rayner.errors import CheckpointError, RecipeError
from rayner.metrics.judged_mentions import JudgedMentions, judge_mentions
from rayner.metrics.reliability import reliability
from rayner.metrics.thresholds import candidates_from_columns, cautious_shifts
from rayner.runtime.training.train import train
from rayner.tasks.predict import predict
from rayner.tasks.recognizer import calibration
from rayner.tasks.recognizer.calibration import BELOW, FILE, load
from rayner.tasks.recognizer.task import RecognizerOptions, RecognizerTask
from rayner.tasks.registry import parse_recipe, train_task
from tests.killed_training import killed_at
from tests.runtime.training.several_workers import tiny_recipe
from tests.tasks.small import DOCUMENTS, NESTED, TYPES, corpus, found, marked, recognizer, trained

UNLIKE = (
    "Acme Bank of Oslo and the Friends of Nobody paid London twice.",
    "Somebody sold winter to Ada Curie.",
)


def without_scores(documents: list[Document]) -> list[Document]:
    return [replace(d, mentions=tuple(replace(m, score=None) for m in d.mentions)) for d in documents]


@pytest.fixture(scope="module", params=["flat", "nested"])
def calibrated(request: pytest.FixtureRequest) -> tuple[RecognizerTask, Any]:
    task = recognizer(decoding={"overlap": request.param})
    return task, trained(task, [*corpus(), *corpus(NESTED)], steps=25)


def test_a_calibration_changes_nothing_but_scores(calibrated: tuple[RecognizerTask, Any]) -> None:
    task, model = calibrated
    documents = corpus()
    options = [None, RecognizerOptions(shift=-2), RecognizerOptions(overlap="nested")]
    for option in options:
        task.calibration = None
        plain = list(predict(task.predictor(model, option), documents))
        task.calibrate(model, documents)
        fitted = list(predict(task.predictor(model, option), documents))
        assert without_scores(fitted) == without_scores(plain)
        assert [m.score for d in fitted for m in d.mentions] != [m.score for d in plain for m in d.mentions]
        judged = judge_mentions(documents, fitted, task.names)
        metrics = task.predictor(model, option).evaluate(fitted, documents)
        assert metrics["calibration_error"] == reliability(judged.score, judged.right).error
        mentions = sorted((m for d in fitted for m in d.mentions), key=lambda m: (m.type, m.margin or 0))
        assert len(mentions) > 5
        for low, high in pairwise(mentions):
            if low.type == high.type and (low.margin or 0) < (high.margin or 0):
                assert (low.score or 0) < (high.score or 0)


def test_lower_thresholds_find_the_same_mentions_above_the_usual_ones(
    calibrated: tuple[RecognizerTask, Any],
) -> None:
    """So what scores are fitted on is what is answered, with the usual thresholds and with lower ones."""
    task, model = calibrated
    documents = [marked(text, str(i)) for i, text in enumerate((*DOCUMENTS, *NESTED, *UNLIKE))]
    usual = found(task, model, documents)
    lower = list(predict(task.predictor(model).shifted(-BELOW), documents))
    above = [replace(d, mentions=tuple(m for m in d.mentions if (m.margin or 0) > 0)) for d in lower]
    assert above == usual
    assert sum(len(d.mentions) for d in lower) > sum(len(d.mentions) for d in usual)


def test_a_type_of_the_request_has_the_pooled_map(calibrated: tuple[RecognizerTask, Any]) -> None:
    task, model = calibrated
    task.calibrate(model, corpus())
    assert task.calibration is not None
    types = tuple(task.recipe.types[0].model_validate({**t, "name": f"new {t['name']}"}) for t in TYPES)
    mentions = [
        mention
        for document in predict(task.predictor(model, RecognizerOptions(types=types)), corpus())
        for mention in document.mentions
    ]
    pooled = task.calibration.pooled
    odds = pooled.of(np.array([m.margin for m in mentions]))
    assert [m.score for m in mentions] == pytest.approx((1 / (1 + np.exp(-odds))).tolist())


def recipe_in(folder: Path, **parts: Any) -> dict[str, Any]:
    return {**tiny_recipe(folder, "recognizer", checkpoint_every=2, epochs=1), **parts}


def test_a_run_calibrates_its_checkpoint_and_resumes_to_the_same(tmp_path: Path) -> None:
    recipe = parse_recipe(recipe_in(tmp_path, calibration={"fraction": 0.3}), "recipe")
    train(recipe, tmp_path / "whole")

    with killed_at(3):
        train(recipe, tmp_path / "cut")
    train(recipe, tmp_path / "cut")
    stored = [(tmp_path / run / "best" / FILE).read_text() for run in ("whole", "cut")]
    assert stored[0] == stored[1]
    assert set(json.loads(stored[0])["types"]) <= {"PER", "LOC"}
    rows = [json.loads(line) for line in (tmp_path / "corpus.jsonl").read_text().splitlines()]
    texts = [row["text"] for row in rows[:4]]
    loaded = rayner.load(tmp_path / "whole" / "best")
    (tmp_path / "whole" / "best" / FILE).unlink()
    with pytest.raises(CheckpointError, match=FILE):
        rayner.load(tmp_path / "whole" / "best")
    assert loaded.predict(texts) == rayner.load(tmp_path / "cut" / "best").predict(texts)


def test_a_run_without_dev_is_calibrated_at_its_end(tmp_path: Path) -> None:
    corpus = {"train": [str(tmp_path / "corpus.jsonl")]}
    values = recipe_in(tmp_path, corpus=corpus, calibration={"fraction": 0.5})
    best = Path(train(parse_recipe(values, "recipe"), tmp_path / "run")["checkpoint"])
    assert load(best) is not None


def test_what_is_set_apart_is_not_learned_from(tmp_path: Path) -> None:
    plain, apart, held_out = (
        train_task(parse_recipe(recipe_in(tmp_path, **parts), "recipe"))
        for parts in (
            {},
            {"calibration": {"fraction": 0.3}},
            {
                "calibration": {"fraction": 0.3},
                "corpus": {"train": [str(tmp_path / "corpus.jsonl")], "dev_fraction": 0.3},
            },
        )
    )

    def parts_of(task: Any) -> list[set[str]]:
        units = (task.units("train"), task.calibration_units(), task.units("dev"))
        return [{item.text for unit in part for item in task.read(unit)} for part in units]

    everything, nothing, _ = parts_of(plain)
    assert not nothing
    train_part, calibration, _ = parts_of(apart)
    assert train_part | calibration == everything
    assert len(train_part) + len(calibration) == len(everything)
    train_part, calibration, dev = parts_of(held_out)
    assert train_part | calibration | dev == everything
    assert len(train_part) + len(calibration) + len(dev) == len(everything)
    alone = train_task(held_out.recipe.model_copy(update={"calibration": plain.recipe.calibration}))
    assert parts_of(alone)[2] == dev


def test_a_checkpoint_without_a_calibration_has_the_logistic_of_the_margin(tmp_path: Path) -> None:
    task = recognizer()
    model = trained(task, corpus())
    task.save(model, tmp_path)
    assert not (tmp_path / FILE).exists()
    task.load(tmp_path)
    mentions = [m for d in found(task, model, corpus()) for m in d.mentions]
    assert mentions
    assert [m.score for m in mentions] == [1 / (1 + np.exp(-(m.margin or 0))) for m in mentions]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"pooled": {"intercept": 0}, "types": {}}', '{"pooled": 1}']
)
def test_a_damaged_calibration_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(CheckpointError, match=f"{FILE}: cannot be read"):
        load(tmp_path)


def test_labels_of_a_dictionary_are_nothing_to_calibrate_by() -> None:
    with pytest.raises(RecipeError, match=r"calibration\.fraction needs mentions that somebody annotated"):
        recognizer(corpus={"train": ["x"], "dictionary": "names.txt"}, calibration={"fraction": 0.1})


def test_a_recognizer_that_finds_nothing_is_not_calibrated(caplog: pytest.LogCaptureFixture) -> None:
    task = recognizer()
    model = trained(task, corpus(), steps=1)
    task.calibrate(model, [])
    assert task.calibration is None
    assert "no mention is found" in caplog.text


def test_scores_are_fitted_at_the_moved_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    names, right = np.array(["X"] * 60, object), np.arange(60) >= 20
    margins = np.linspace(0, 3, 60)
    seen: list[Any] = []

    class Fake(SimpleNamespace):
        def with_thresholds(self, moved: Any) -> Any:
            return Fake(moved=moved)

        def shifted(self, shift: float) -> Any:
            return self

    def judged(recognizer: Any, documents: Any) -> JudgedMentions:
        seen.append(recognizer.moved)
        return JudgedMentions(names, margins, margins, right)

    monkeypatch.setattr(calibration, "_judged", judged)
    # Ten are never found.
    gold = Document("d", "x" * 70, tuple(Mention(i, i + 1, "X") for i in range(70)))
    calibration.calibrate(Fake(moved={}), [gold], ["X"])
    wanted = cautious_shifts(candidates_from_columns(names.astype(str), margins, right, {"X": 70}), -4.0)
    assert wanted["X"] > 0
    assert seen == [{}, wanted]
