from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rayner.data.schema import Document, Mention
from rayner.data.writers import write_jsonl
from rayner.errors import CheckpointError, RecipeError
from rayner.losses.gaussian import Gaussians, gaussian_contrast
from rayner.losses.positives import pairs
from rayner.models.encoder import load_encoder
from rayner.runtime.training.train import train
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.gaussian.neighbours import FILE, Support
from rayner.tasks.gaussian.task import GaussianTask
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.stages import load_pipeline
from tests.runtime.training.several_workers import tiny_recipe
from tests.tasks.gaussian.small_gaussian import PROGRESS, gaussian, learned
from tests.tasks.small import built, collated, corpus, spans


def contrasted(task: GaussianTask, model: Any, documents: list[Document]) -> tuple[torch.Tensor, int]:
    """The contrast of all windows in one step: sum and count."""
    output = task.forward(model, collated(task, documents), PROGRESS)
    assert output.vectors is not None
    assert output.keys is not None
    own = torch.arange(len(output.vectors))
    total, count = task.contrast(output.vectors, output.vectors, output.keys, own, PROGRESS)["contrast"]
    return total, int(count)


def slow(task: GaussianTask, model: Any, documents: list[Document]) -> tuple[float, int]:
    """By the labels of words as the annotation has them."""
    batch = collated(task, documents)
    with torch.no_grad():
        found = model(batch.ids, batch.mask, batch.words)
    names = [task.labels[label] for label in batch.labels.tolist()]
    if task.recipe.loss.positives == "types":
        names = [name[2:] for name in names]
    numbers = torch.tensor([sorted(set(names)).index(name) for name in names])
    places = torch.arange(len(names))
    if task.recipe.loss.outside == "negatives":
        places = places[torch.tensor([name not in ("O", "") for name in names])]
    chosen = Gaussians(*(part[places] for part in found))
    total, count = gaussian_contrast(chosen, found, pairs(numbers[places], numbers, places))
    return total.item(), int(count)


@pytest.mark.parametrize("positives", ["types", "tags"])
@pytest.mark.parametrize("outside", ["anchors", "negatives"])
def test_words_of_equal_labels_are_drawn_together(positives: str, outside: str) -> None:
    task = gaussian(loss={"positives": positives, "outside": outside})
    model, documents = built(task).eval(), corpus()
    total, count = contrasted(task, model, documents)
    wanted, number = slow(task, model, documents)
    assert count == number > 0
    assert total.item() == pytest.approx(wanted, rel=1e-4)


def test_each_setting_makes_another_loss() -> None:
    tasks = [
        gaussian(loss={"positives": positives, "outside": outside})
        for positives in ("types", "tags")
        for outside in ("anchors", "negatives")
    ]
    found = [contrasted(task, built(task).eval(), corpus()) for task in tasks]
    assert len({round(total.item(), 3) for total, _ in found}) == 4
    assert found[0][1] > found[1][1] > 0


def test_a_step_without_a_pair_or_a_word_has_no_loss_and_no_gradient() -> None:
    task = gaussian(loss={"outside": "negatives"})
    model = built(task)
    (first, *_), nobody = corpus(["[PER:Ada] slept in [LOC:Paris] twice."]), corpus()[3]
    for documents in ([first], [nobody], [replace(nobody, annotated_types=())]):
        model.zero_grad()
        total, count = contrasted(task, model, documents)
        assert (total.item(), count) == (0, 0)
        total.backward()
        assert all(p.grad is None or not p.grad.abs().any() for p in model.parameters())


def test_a_word_of_two_windows_is_no_positive_of_itself() -> None:
    task = gaussian(loss={"outside": "negatives"}, windows={"length": 12, "overlap": 5})
    (document,) = corpus(["one two three four five six [PER:Ada] eight nine ten eleven twelve"])
    twin = replace(document, document_id="twin")
    model = built(task).eval()
    for documents, anchors in (([document], 0), ([document, twin], 4)):
        person = task.contrasted.index("I-PER")
        keys = task.forward(model, collated(task, documents), PROGRESS).keys
        assert keys is not None
        assert int((keys[:, 0] == person).sum()) == 2 * len(documents)
        assert contrasted(task, model, documents)[1] == anchors


def test_types_that_were_not_annotated_are_left_out() -> None:
    task = gaussian()
    model = built(task).eval()
    documents = corpus()
    partial = [replace(documents[0], annotated_types=("ORG",)), *documents[1:]]
    output = task.forward(model, collated(task, partial), PROGRESS)
    words = len(collated(task, partial).labels)
    assert output.keys is not None
    # Its person and its place are no anchors, nor candidates; its other words are no negatives of such.
    assert len(output.keys) == words - 3
    nothing = [replace(d, annotated_types=()) for d in documents]
    assert contrasted(task, model, nothing)[1] == 0


def test_several_corpora_of_other_types_and_languages_are_mixed(tmp_path: Path) -> None:
    one, other = tmp_path / "one.iob2", tmp_path / "other.iob2"
    one.write_text("Ada\tB-PER\nslept\tO\n\nZorn\tB-PER\nslept\tO\n")
    other.write_text("Durmió\tO\nen\tO\nOslo\tB-LOC\n\nSoñó\tO\ncon\tO\nTurín\tB-LOC\n")
    annotated = {str(one): ["PER"], str(other): ["LOC"]}
    values = {"train": [str(one), str(other)], "annotated": annotated}
    task = gaussian(corpus=values)
    documents = list(task.items("train"))
    assert [d.annotated_types for d in documents] == [("PER",)] * 2 + [("LOC",)] * 2
    output = task.forward(built(task), collated(task, documents), PROGRESS)
    assert output.keys is not None
    assert len(output.keys[:, :-1].unique(dim=0)) == 4  # persons, places, and what is outside in each corpus
    with pytest.raises(RecipeError, match="annotated names 'two', which is neither in train nor in dev"):
        gaussian(corpus={"train": [str(one)], "annotated": {"two": ["PER"]}})
    with pytest.raises(RecipeError, match="'PRE' is no type of the recipe; did you mean 'PER'"):
        gaussian(corpus=values | {"annotated": {str(one): ["PRE"]}}).units("train")


def test_neighbours_find_the_mentions_that_it_learned() -> None:
    task = gaussian()
    # The same texts twice: a document's own words are never its neighbours.
    documents = [*corpus(), *(replace(d, document_id=f"{d.document_id}'") for d in corpus())]
    scores = []
    for steps in (0, 40):
        model = learned(task, documents, steps)
        with torch.no_grad():
            task.fit(model, documents)
        predictor = task.predictor(model)
        assert predictor is not None
        answers = list(predict(predictor, documents))
        scores.append(predictor.evaluate(answers, documents)["f1"])
    assert scores[1] == 1.0
    assert all(0 < m.score <= 1 for d in answers for m in d.mentions if m.score is not None)


def test_a_document_is_no_neighbour_of_itself() -> None:
    task = gaussian()
    model, (document, *_) = built(task).eval(), corpus()
    with torch.no_grad():
        task.fit(model, [document])
    predictor = task.predictor(model)
    assert predictor is not None
    (alone,) = predict(predictor, [document])
    assert not alone.mentions
    (twin,) = predict(predictor, [replace(document, document_id="twin")])
    assert spans(twin) == spans(document)
    (of_group,) = predict(predictor, [replace(document, document_id="twin", group=document.document_id)])
    assert not of_group.mentions


def test_a_dev_in_which_nothing_can_be_found_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    task = gaussian(support_words=3)
    model = built(task).eval()
    of_novel = [replace(document, group="a novel") for document in corpus()]
    with torch.no_grad():
        for _ in range(2):
            task.fit(model, of_novel)
        predictor = task.predictor(model)
        assert predictor is not None
        assert not any(document.mentions for document in predict(predictor, of_novel))
        (told,) = caplog.messages
        assert told.startswith("the development part is of one document or group, 'a novel'")
        assert told.endswith("add another group to corpus.dev, or leave dev out")
        caplog.clear()
        task.fit(model, [*corpus()[:1], *of_novel])
        (told,) = caplog.messages
        assert "raise support_words above 3" in told
        caplog.clear()
        gaussian().fit(model, [*corpus()[:1], *of_novel])
    assert not caplog.messages


def test_a_dev_that_is_annotated_for_no_type_does_not_end_a_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    of_others = [replace(document, annotated_types=("OTHER",), mentions=()) for document in corpus()]
    write_jsonl(of_others, tmp_path / "dev.jsonl")
    values = tiny_recipe(tmp_path, "gaussian", epochs=1)
    values["corpus"]["dev"] = [str(tmp_path / "dev.jsonl")]
    result = train(parse_recipe(values, "recipe"), tmp_path / "run")
    assert result["metrics"] == {}
    assert "dev says nothing about f1: best/ is the last step" in caplog.messages
    assert load_checkpoint(tmp_path / "run" / "best")


def test_neighbours_are_at_most_as_many_as_the_recipe_says() -> None:
    task = gaussian(support_words=10)
    with torch.no_grad():
        task.fit(built(task).eval(), corpus())
    assert task.support is not None
    assert len(task.support.labels) == len(task.support.rows) == len(task.support.groups) == 10


def test_words_whose_label_nobody_knows_are_no_neighbours() -> None:
    task = gaussian()
    model, (document, *_) = built(task).eval(), corpus(["[PER:Ada] slept in Paris twice."])
    start = document.text.index("Paris")
    unknown = replace(document, mentions=(*document.mentions, Mention(start, start + 5, "?")))
    other_types = replace(document, annotated_types=("LOC",))
    numbers = []
    with torch.no_grad():
        for one in (document, unknown, other_types, replace(document, annotated_types=())):
            task.fit(model, [one])
            numbers.append(None if task.support is None else task.support.labels.tolist())
    person = task.contrasted.index("I-PER")
    assert numbers == [[person, 0, 0, 0, 0, 0], [person, 0, 0, 0, 0], [0, 0, 0, 0, 0], None]


def test_its_encoder_starts_a_tagger_and_a_recognizer(tmp_path: Path) -> None:
    values = tiny_recipe(tmp_path, "gaussian", epochs=1)
    best = Path(train(parse_recipe(values, "recipe"), tmp_path / "run")["checkpoint"])
    trained: Any = load_checkpoint(best, "cpu").model
    learned = trained.text_encoder.state_dict()
    fresh = load_encoder("random:32x2").state_dict()
    assert any(not torch.equal(learned[name], fresh[name]) for name in learned)
    for name in ("tagger", "recognizer"):
        task = train_task(parse_recipe({**values, "task": name, "encoder": str(best)}, "recipe"))
        started: Any = task.build()
        for key, value in started.text_encoder.state_dict().items():
            assert torch.equal(value, learned[key]), key
    answers = load_pipeline(best, "cpu")
    assert answers.settings.answers_documents
    no_dev = {**values, "corpus": {"train": values["corpus"]["train"]}}
    alone = Path(train(parse_recipe(no_dev, "recipe"), tmp_path / "no_dev")["checkpoint"])
    with pytest.raises(CheckpointError, match="which has nothing to answer"):
        load_pipeline(alone, "cpu")
    (best / "support.safetensors").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="support"):
        load_checkpoint(best, "cpu")


def test_support_is_read_back_as_written(tmp_path: Path) -> None:
    task = gaussian()
    with torch.no_grad():
        task.fit(built(task).eval(), corpus())
    assert task.support is not None
    task.support.save(tmp_path)
    again = type(task.support).load(tmp_path)
    assert again is not None
    assert all(np.array_equal(a, b) for a, b in zip(task.support, again, strict=True))


def test_neighbours_of_an_earlier_version_are_left_out_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    empty = torch.zeros(2, dtype=torch.long)
    save_file({"rows": torch.zeros(2, 4), "labels": empty, "groups": empty.clone()}, tmp_path / FILE)
    assert Support.load(tmp_path) is None
    assert "comes from an earlier version, whose neighbours are not read; train anew" in caplog.text
    save_file({"rows": torch.zeros(2, 4)}, tmp_path / FILE)
    with pytest.raises(CheckpointError, match="cannot be read"):
        Support.load(tmp_path)
