"""How uncertain models are about documents, against their answers and the definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from rayner.data.schema import Document
from rayner.losses.gaussian import Gaussians
from rayner.models.encoder import load_tokenizer
from rayner.tasks.gaussian.task import GaussianTask
from rayner.tasks.predict import predict
from rayner.tasks.recognizer import predictor as recognition
from rayner.tasks.recognizer.task import RecognizerTask
from rayner.tasks.registry import OWN, parse_recipe
from rayner.tasks.uncertainty import Uncertainty, UncertaintyPredictor
from tests.tasks.small import BASE, built, corpus, recognizer, tagger, trained

WINDOWS = {"length": 20, "overlap": 7}
LONG = Document("long", " ".join(["Ada saw Paris, the Seine and nobody else."] * 4))


def gaussian(**changes: Any) -> GaussianTask:
    values = {**BASE, **changes, "task": "gaussian", "model": {"dropout": 0, "embedding_size": 16}}
    return GaussianTask(parse_recipe(values, "test"), load_tokenizer("random:32x2"))


def scored(task: Any, model: Any, documents: list[Document]) -> list[Uncertainty]:
    return list(predict(UncertaintyPredictor(task, model), documents))


def test_a_tagger_is_as_uncertain_as_its_best_sequence_is_improbable() -> None:
    task = tagger(windows=WINDOWS)
    model = built(task)
    (document,) = corpus()[:1]
    (score, words) = scored(task, model, [document])[0]
    predictor = task.predictor(model)
    windows = predictor.prepare(document)
    assert len(windows) == 1
    (tags,) = predictor.forward(windows)
    assert words == len(tags.labels)
    assert score * words == pytest.approx(-math.log(np.prod(tags.probabilities.astype(float))), rel=1e-5)


@pytest.mark.parametrize("shift", [0.0, -1.5])
def test_a_recognizer_is_as_uncertain_as_its_decisions(monkeypatch: pytest.MonkeyPatch, shift: float) -> None:
    task = recognizer(windows=WINDOWS)
    model = built(task).eval()
    predictor = task.predictor(model).shifted(shift)
    windows = predictor.prepare(LONG)
    assert len(windows) > 2
    ((_, scores),), _, ends = predictor.scores(windows)
    slow = []
    for row, window in enumerate(windows):
        slow.append([0.0] * len(window.words))
        for place, start in enumerate(window.word_positions):
            for kind in range(len(task.names)):
                for width in range(scores.span.shape[3]):
                    end = start + width
                    if end < ends.shape[1] and ends[row, end]:
                        margin = scores.span[row, kind, start, width] - scores.span_threshold[row, kind]
                        p = 1 / (1 + math.exp(shift - float(margin)))
                        slow[-1][place] -= math.log(max(p, 1 - p))
    for one, other in zip(predictor.uncertainties(windows), slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)
    monkeypatch.setattr(recognition, "_CELLS_AT_ONCE", 1)
    for one, other in zip(predictor.uncertainties(windows), slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_a_gaussian_is_as_uncertain_as_its_entropy() -> None:
    drawn = Gaussians(torch.randn(3, 4), torch.randn(3, 4).exp())
    normal = torch.distributions.Normal(drawn.mean, drawn.variance.sqrt())
    torch.testing.assert_close(drawn.entropies(), normal.entropy().mean(1))
    task = gaussian()
    model, (document, *_) = built(task).eval(), corpus()
    (score, words) = scored(task, model, [document])[0]
    batch = task.collate(list(task.examples([document])), [])
    with torch.no_grad():
        found = model(batch.ids, batch.mask, batch.words)
    assert words == len(found.mean)
    assert score == pytest.approx(found.entropies().mean().item(), abs=1e-5)


@pytest.mark.parametrize("task", [make(windows=WINDOWS) for make in (tagger, recognizer, gaussian)])
def test_batches_change_no_score_and_no_words_none(task: Any) -> None:
    model = built(task).eval()
    documents = [*corpus(), LONG, Document("empty", " - \n")]
    together = scored(task, model, documents)
    alone = [scored(task, model, [document])[0] for document in documents]
    assert [words for _, words in together] == [words for _, words in alone]
    np.testing.assert_allclose([s for s, _ in together], [s for s, _ in alone], atol=1e-4)
    assert min(words for _, words in together[:-1]) > 0


def test_a_longer_document_is_not_more_uncertain_for_its_length() -> None:
    """The same sentence once and eight times; each read alone, so that nothing else differs."""
    task = tagger(windows={"length": 12, "overlap": 0})
    model, text = built(task), "Zorn saw unaffable seas in winter ."
    one, many = scored(task, model, [Document("1", text), Document("8", " ".join([text] * 8))])
    assert many[1] == 8 * one[1]
    assert many[0] < 2 * one[0]


def test_what_was_learned_is_more_certain() -> None:
    documents = corpus()
    strange = [Document("s", "Zorn unaffably quizzed Qwxyz Ltd. near Grmbl.")]
    for make in (tagger, recognizer):
        task: Any = make()
        model = trained(task, documents)
        learned = [score for score, _ in scored(task, model, documents)]
        assert max(learned) < scored(task, model, strange)[0][0]


def test_the_record_of_a_task_says_whether_it_knows_uncertainty() -> None:
    learners = {one.name: one.learn if isinstance(one.learn, type) else RecognizerTask for one in OWN}
    knowing = {name for name, learner in learners.items() if hasattr(learner, "uncertainty")}
    assert {one.name for one in OWN if one.knows_uncertainty} == knowing
