"""What an extractor says of contexts: the probability of gold mentions with and without each."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rayner.config import ContextSettings
from rayner.data.schema import Context, Document, Mention
from rayner.data.words import find_words
from rayner.errors import CheckpointError
from rayner.metrics.score_calibration import MarginMap, ScoreCalibration
from rayner.supervision.context_rows import ContextRow
from rayner.tasks.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from rayner.tasks.context_gains import Gain, _GoldPredictor, check_extractor, context_gains, mean_gains
from rayner.tasks.document_windows import Gold, gold_of
from rayner.tasks.predict import predict
from tests.tasks.small import built, corpus, marked, recognizer, tagger, trained

WINDOWS = {"length": 60, "overlap": 8, "context": 30}
BOOK = marked(
    "[PER:Ada] wrote  to\n[LOC:Paris]. It rained. "
    "[PER:Curie] met [PER:Ada] by the [LOC:Seine]. Nobody slept.",
    "book",
    group="novel",
)


@pytest.fixture(scope="module", params=[recognizer, tagger], ids=["recognizer", "tagger"])
def extractor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    task: Any = request.param(windows=WINDOWS)
    folder = tmp_path_factory.mktemp("extractor") / "best"
    save_checkpoint(folder, task, trained(task, corpus(), 40), {})
    return load_checkpoint(folder)


def test_the_probability_of_what_is_found_is_its_score(extractor: Checkpoint) -> None:
    predictor: Any = extractor.predictor()
    index = {name: place for place, name in enumerate(predictor.names)}
    compared = 0
    for document in corpus():
        (found,) = predict(predictor, [document])
        (window,) = predictor.prepare(document)
        words = [m for m in found.mentions if " " not in document.text[m.start : m.end]]
        gold, _ = gold_of(dataclasses.replace(document, mentions=tuple(words)), window.subwords, index, None)
        assert len(gold) == len(words)
        (scores,) = predictor.gold_probabilities([window], [gold])
        assert scores == pytest.approx([m.score for m in words], rel=1e-4)
        compared += len(words)
    assert compared >= 3


def test_with_a_calibration_and_lower_thresholds_too(tmp_path: Path) -> None:
    task = recognizer(windows=WINDOWS)
    task.calibration = ScoreCalibration(MarginMap((-1.0, 2.0), (-3.0, 0.5), 0.2, 0.1))
    predictor: Any = task.predictor(trained(task, corpus(), 40)).shifted(-1.5)
    document = corpus()[0]
    (found,) = predict(predictor, [document])
    (window,) = predictor.prepare(document)
    index = {name: place for place, name in enumerate(predictor.names)}
    gold, _ = gold_of(found, window.subwords, index, None)
    assert len(gold) == len(found.mentions) > 0
    (scores,) = predictor.gold_probabilities([window], [gold])
    assert sorted(scores) == pytest.approx(sorted(m.score or 0 for m in found.mentions), rel=1e-4)
    (too_wide,) = predictor.gold_probabilities([window], [[Gold(0, 0, 99)]])
    assert too_wide == pytest.approx([0], abs=1e-6)


def test_of_a_tag_for_each_word_the_product_counts() -> None:
    task = tagger(windows=WINDOWS)
    predictor: Any = task.predictor(built(task))
    document = corpus()[0]
    (window,) = predictor.prepare(document)
    gold, _ = gold_of(document, window.subwords, {"PER": 0, "ORG": 1, "LOC": 2}, None)
    (scores,) = predictor.gold_probabilities([window], [gold])
    logits = predictor._logits([window])[0].softmax(-1).detach().numpy()[window.word_positions]
    labels = {"Ada": "B-PER", "Lovelace": "I-PER"}
    words = [document.text[slice(*span)] for span in window.subwords.words]
    wanted = np.prod([logits[words.index(w), task.labels.index(tag)] for w, tag in labels.items()])
    assert scores[0] == pytest.approx(wanted, rel=1e-4)


def test_a_gain_is_the_rise_of_the_mean_probability(extractor: Checkpoint) -> None:
    settings = ContextSettings(methods=("surrounding",), count=2)
    gains = list(context_gains(extractor, [BOOK, Document("empty", "Nothing here. Nor here.")], settings))
    assert [(g.sentence, g.context, g.entities) for g in gains] == [
        ("Ada wrote to Paris.", "It rained.", ("Ada", "Paris")),
        ("Ada wrote to Paris.", "Curie met Ada by the Seine.", ("Ada", "Paris")),
        ("Curie met Ada by the Seine.", "It rained.", ("Curie", "Ada", "Seine")),
        ("Curie met Ada by the Seine.", "Nobody slept.", ("Curie", "Ada", "Seine")),
    ]
    assert {g.group for g in gains} == {"novel"}

    def mean(contexts: tuple[Context, ...]) -> float:
        sentence = marked("[PER:Curie] met [PER:Ada] by the [LOC:Seine].", contexts=contexts)
        predictor: Any = extractor.predictor()
        (window,) = predictor.prepare(sentence)
        index = {name: place for place, name in enumerate(predictor.names)}
        gold, _ = gold_of(sentence, window.subwords, index, None)
        return float(np.mean(predictor.gold_probabilities([window], [gold])))

    expected = mean((Context("It rained.", 1.0, True),)) - mean(())
    assert gains[2].gain == pytest.approx(expected, abs=1e-4)
    assert any(abs(gain.gain) > 1e-6 for gain in gains)


def test_a_sentence_keeps_its_mentions_in_their_order_and_its_words(extractor: Checkpoint) -> None:
    settings = ContextSettings(methods=("surrounding",), count=2)
    across = Mention(BOOK.text.index("Paris"), BOOK.text.index("rained"), "LOC")
    turned = dataclasses.replace(BOOK, mentions=(across, *BOOK.mentions[::-1]))
    usual, found = (list(context_gains(extractor, [book], settings)) for book in (BOOK, turned))
    assert [g.entities for g in found] == [g.entities[::-1] for g in usual]
    assert [g.gain for g in found] == pytest.approx([g.gain for g in usual], abs=1e-6)
    words = tuple(find_words(BOOK.text))
    assert list(context_gains(extractor, [dataclasses.replace(BOOK, words=words)], settings)) == usual


def test_a_mention_that_a_context_leaves_no_room_for_is_no_gain() -> None:
    task = tagger(windows={"length": 18, "overlap": 2, "context": 8})
    predictor = _GoldPredictor(task, task.predictor(built(task)))
    sentence = marked("[PER:Ada] wrote to [LOC:the old house of the river] all day.")
    means, held = [], []
    for contexts in ((), (Context("It rained all day in the town.", 1.0, True),)):
        windows = predictor.prepare(dataclasses.replace(sentence, sentence_contexts=(contexts,)))
        scores = predictor.forward(windows)
        means.append(predictor.finish(sentence, windows, scores))
        held.append([score for of_window in scores for score in of_window])
    assert [len(found) for found in held] == [2, 1]
    assert means == pytest.approx([sum(held[0]) / 2, held[1][0] / 2])


def test_a_row_is_relevant_not_or_unclear() -> None:
    def relevant(gain: float) -> bool | None:
        row = Gain("s", "c", gain, ("e",), "g").row(0.1)
        return None if row is None else row.relevant

    assert [relevant(x) for x in (-0.5, 0.0, 0.05, 0.1, 0.5)] == [False, False, None, True, True]
    # What leaves all as it was helps nobody, however little is asked for.
    assert [Gain("s", "c", gain, ("e",), "g").row(0.0) for gain in (0.0, 1e-9)] == [
        ContextRow("s", "c", False, ("e",), "g"),
        ContextRow("s", "c", True, ("e",), "g"),
    ]


def test_checkpoints_that_cannot_label(tmp_path: Path) -> None:
    task = tagger()
    save_checkpoint(tmp_path / "best", task, task.build(), {})
    with pytest.raises(CheckpointError, match=r"reads no contexts \(windows.context is 0\)"):
        check_extractor(load_checkpoint(tmp_path / "best"))


def test_what_a_text_repeats_is_one_gain() -> None:
    gains = [
        Gain("s", "c", 0.5, ("e",), "g"),
        Gain("s", "c", 0.2, ("e",), "other"),
        Gain("s", "d", 0.1, ("e",), "g"),
        Gain("s", "c", -0.25, ("f", "e"), "g"),
    ]
    assert mean_gains(gains) == [Gain("s", "c", 0.125, ("e", "f"), "g"), *gains[1:3]]
