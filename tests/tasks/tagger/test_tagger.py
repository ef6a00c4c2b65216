from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document, Mention
from rayner.data.words import find_words
from rayner.errors import InputError, RecipeError
from rayner.metrics.temperature import best_temperature
from rayner.tasks.base import Progress
from rayner.tasks.checkpoint import load_checkpoint, save_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.predictor_options import Options
from rayner.tasks.tagger import task as module
from rayner.tasks.tagger.tags import Tags
from tests.tasks.small import built, collated, corpus, found, marked, recognizer, spans, tagger, trained

TASKS = {
    scheme: tagger(model={"scheme": scheme}, windows={"length": 16, "overlap": 5})
    for scheme in ("BIO", "BIOES")
}


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_it_learns_its_training_documents_by_heart(scheme: str) -> None:
    task, documents = TASKS[scheme], corpus()
    model = trained(task, documents)
    metrics = task.predictor(model).evaluate(found(task, model, documents), documents)
    assert metrics["f1"] == 1.0


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Words, some of them in mentions that do not overlap and may touch."""
    words = draw(
        st.lists(st.sampled_from(["so", "Zorn", "日", "🙂", "unaffable", ","]), min_size=1, max_size=40)
    )
    text = " ".join(words)
    places = find_words(text)
    mentions, position = [], 0
    while position < len(places):
        position += draw(st.integers(0, 3))
        last = position + draw(st.integers(0, 4))
        if last < len(places):
            kind = draw(st.sampled_from(["PER", "ORG", "LOC"]))
            mentions.append(Mention(places[position][0], places[last][1], kind))
        position = last + 1
    return Document("d", text, tuple(mentions))


@given(documents(), st.sampled_from(["BIO", "BIOES"]))
def test_labels_lead_back_to_the_mentions(document: Document, scheme: str) -> None:
    task = TASKS[scheme]
    rows, windows = list(task.examples([document])), task.windows_of(document)
    assert not rows[0]["rejects"]
    tags = [Tags(np.asarray(r["labels"]), np.ones(len(r["labels"]))) for r in rows]
    predictor = task.predictor(UNTRAINED[scheme])
    assert spans(predictor.finish(document, windows, tags)) == spans(document)


UNTRAINED = {scheme: built(task) for scheme, task in TASKS.items()}


def test_of_nested_mentions_the_outermost_is_learned_and_the_others_are_named() -> None:
    document = marked("[ORG:University of [LOC:Paris]] hired [PER:[PER:Ada] Lovelace].")
    (row,) = TASKS["BIO"].examples([document])
    names = [TASKS["BIO"].labels[label] for label in row["labels"]]
    assert names == ["B-ORG", "I-ORG", "I-ORG", "O", "B-PER", "I-PER", "O"]
    assert sorted(row["rejects"]) == [
        "d: LOC at 14-19: overlaps a longer mention",
        "d: PER at 26-29: overlaps a longer mention",
    ]


def test_each_word_has_one_label_wherever_windows_end() -> None:
    task = TASKS["BIO"]
    text = " ".join(["unaffable Zorn, unaffordably"] * 12)
    document = Document("d", text)
    batch = collated(task, [document])
    assert len(batch.ids) > 2
    assert len(batch.words[0]) == len(batch.labels) == len(batch.unknown)


def test_it_has_no_options() -> None:
    with pytest.raises(InputError, match="types: is no option of a tagger; it has none"):
        Options.of({"types": recognizer().recipe.types, "shift": None}, "tagger")


def test_examples_of_another_scheme_are_others() -> None:
    one, other = (tagger(model={"scheme": scheme}).example_settings() for scheme in ("BIO", "BIOES"))
    assert one != other


def slow_loss(task, batch, logits, near) -> tuple[float, float]:
    """Word by word: the sum of weighted surprisals, and that of the weights."""
    loss, chances = task.recipe.loss, logits.double().softmax(-1)
    total = weight = 0.0
    for word, label in enumerate(batch.labels.tolist()):
        name = task.labels[label]
        if name == "O" and loss.outside == "neighbours" and not near[word]:
            continue
        counts = loss.outside_weight if name == "O" else loss.class_weights.get(name[2:], 1.0)
        total -= counts * chances[word, label].log().item()
        weight += counts
    return total, weight


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
@pytest.mark.parametrize(
    "loss",
    [
        {},
        {"outside": "neighbours"},
        {"outside_weight": 0.25, "class_weights": {"PER": 3.0}},
        {"outside": "neighbours", "outside_weight": 0.5, "class_weights": {"LOC": 2.0}},
    ],
)
def test_the_loss_is_that_of_each_word_by_its_weight(scheme: str, loss: dict[str, Any]) -> None:
    task = tagger(model={"scheme": scheme}, loss=loss)
    documents = corpus()
    batch, model = collated(task, documents), built(task).eval()
    near = []
    for document in documents:
        words = find_words(document.text)
        inside = [any(m.start <= a and b <= m.end for m in document.mentions) for a, b in words]
        near += [any(inside[max(0, i - 1) : i + 2]) for i in range(len(words))]
    assert not all(near)
    (found_sum,) = task.forward(model, batch, Progress(0, 1, 0, 1)).sums.values()
    total, weight = slow_loss(task, batch, model(batch.ids, batch.mask)[batch.words], near)
    assert found_sum.item() == pytest.approx(total, rel=1e-5)
    assert task.counts(batch, Progress(0, 1, 0, 1))["tag"] == pytest.approx(weight)


def test_a_neighbour_of_a_mention_of_the_next_window_counts() -> None:
    text = "one two three four five six seven eight nine ten Zorn."
    document = Document("d", text, (Mention(text.index("Zorn"), len(text) - 1, "PER"),))
    task = tagger(loss={"outside": "neighbours"}, windows={"length": 12, "overlap": 0})
    rows = list(task.examples([document]))
    assert len(rows) > 1
    words = np.concatenate([row["near"] for row in rows])
    assert words.tolist() == [False] * 9 + [True] * 3
    assert not rows[0]["near"][:-1].any()


def test_a_weight_of_no_type_is_refused() -> None:
    with pytest.raises(RecipeError, match="class_weights names 'PERS', which is no type"):
        tagger(loss={"class_weights": {"PERS": 2.0}})


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_constrained_decoding_answers_otherwise_where_the_best_labels_are_broken(scheme: str) -> None:
    task = tagger(model={"scheme": scheme}, decoding="constrained", windows={"length": 16, "overlap": 5})
    model, greedy = built(task), TASKS[scheme]
    texts = [Document(str(i), " ".join(["Zorn saw unaffable seas."] * (i + 1))) for i in range(6)]
    predictor = task.predictor(model)
    broken = 0
    for text in texts:
        windows = predictor.prepare(text)
        tags = predictor.forward(windows)
        out = predictor.finish(text, windows, tags)
        plain = greedy.predictor(model).finish(text, windows, tags)
        assert all(0 < m.score <= 1 for m in out.mentions if m.score is not None)
        broken += spans(out) != spans(plain)
    assert broken


def test_decoding_changes_nothing_where_the_model_is_sure() -> None:
    task, documents = TASKS["BIO"], corpus()
    constrained = tagger(decoding="constrained", windows={"length": 16, "overlap": 5})
    model = trained(task, documents)
    assert list(map(spans, found(constrained, model, documents))) == list(map(spans, documents))


def test_a_long_document_is_read_for_a_temperature_as_far_as_words_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = tagger(calibration="temperature", windows={"length": 16, "overlap": 5})
    (long,) = corpus(["[PER:Ada] wrote to [ORG:Acme] . " * 40])
    monkeypatch.setattr(module, "CALIBRATION_WORDS", 20)
    _, labels = task._known_words(built(task).eval(), [long, long])
    assert 20 <= len(labels) < 40


def test_a_temperature_changes_probabilities_and_no_label(tmp_path: Path) -> None:
    documents = corpus()
    plain, calibrated = (
        tagger(calibration=how, windows={"length": 16, "overlap": 5}) for how in ("none", "temperature")
    )
    models = [trained(task, documents, steps=12) for task in (plain, calibrated)]
    assert models[0].temperature is None
    temperature = models[1].temperature.item()
    assert temperature != pytest.approx(1, abs=0.05)
    one, other = (found(t, m, documents) for t, m in zip((plain, calibrated), models, strict=True))
    assert list(map(spans, one)) == list(map(spans, other))
    assert any(spans(document) for document in one)
    scores = [[m.score or 0.0 for d in answers for m in d.mentions] for answers in (one, other)]
    # All labels are right here, or the model is too cautious: a temperature below 1 makes it bolder.
    assert (temperature < 1) == (sum(scores[1]) > sum(scores[0]))
    logits, labels = calibrated._known_words(models[1], documents)
    assert len(labels) >= sum(len(find_words(d.text)) for d in documents)
    assert best_temperature(logits, labels) == pytest.approx(temperature)
    save_checkpoint(tmp_path / "best", calibrated, models[1], {})
    again: Any = load_checkpoint(tmp_path / "best", "cpu").model
    assert again.temperature.item() == pytest.approx(temperature)


def test_words_whose_label_is_not_known_set_no_temperature() -> None:
    task = tagger(calibration="temperature")
    documents = [replace(d, annotated_types=("PER",)) for d in corpus()]
    _, labels = task._known_words(built(task), documents)
    assert len(labels)
    assert 0 not in labels
    model = built(task)
    task.fit(model, [])
    assert model.temperature.item() == 1


def test_decoding_with_a_temperature_is_the_same_sequence() -> None:
    task = tagger(decoding="constrained", calibration="temperature")
    model, texts = built(task), [Document("d", "Zorn saw unaffable seas. " * 4)]
    one = list(map(spans, found(task, model, texts)))
    model.temperature.fill_(3.0)
    assert list(map(spans, found(task, model, texts))) == one


def test_a_crf_learns_and_its_scores_are_probabilities(tmp_path: Path) -> None:
    task, documents = tagger(decoding="crf", windows={"length": 16, "overlap": 5}), corpus()
    model = trained(task, documents)
    assert model.between.abs().max() > 0.01
    answers = found(task, model, documents)
    assert list(map(spans, answers)) == list(map(spans, documents))
    assert all(0.5 < m.score <= 1 for d in answers for m in d.mentions if m.score is not None)
    save_checkpoint(tmp_path / "best", task, model, {})
    loaded = load_checkpoint(tmp_path / "best", "cpu")
    assert list(predict(loaded.predictor(), documents)) == answers


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"loss": {"outside": "neighbours"}}, "decoding: crf learns whole sequences"),
        ({"calibration": "temperature"}, "calibration is of probabilities of single words"),
    ],
)
def test_what_a_crf_cannot_learn_is_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(RecipeError, match=what):
        tagger(decoding="crf", **changes)


def test_a_temperature_without_a_development_set_is_refused() -> None:
    paths = {"train": ["nowhere"], "dev": [], "dev_fraction": 0}
    assert tagger(corpus=paths).recipe.calibration == "none"
    assert tagger(corpus={**paths, "dev_fraction": 0.1}, calibration="temperature")
    with pytest.raises(RecipeError, match=r"calibration temperature needs corpus\.dev or"):
        tagger(corpus=paths, calibration="temperature")
