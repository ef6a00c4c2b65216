from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rayner
from rayner.config import TypeSettings
from rayner.data.schema import Document
from rayner.errors import CheckpointError, InputError
from rayner.tasks.checkpoint import load_checkpoint, save_checkpoint, version_of
from rayner.tasks.predict import predict
from rayner.tasks.recognizer.task import RecognizerOptions
from rayner.tasks.recognizer.types import type_inputs
from tests.tasks.small import built, corpus, found, recognizer, spans, tagger, trained

ANIMAL = TypeSettings(name="ANIMAL", description="cats and dogs")


@pytest.mark.parametrize("threshold", ["learned", "tuned", "dynamic"])
def test_a_type_can_be_added_by_its_description(threshold: str) -> None:
    task = recognizer(model={"threshold": threshold})
    model = built(task).eval()
    if threshold != "dynamic":
        model.set_thresholds(torch.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [2.0, 0.0, 7.0]]))
    predictor = task.predictor(model, RecognizerOptions(types=(task.recipe.types[1], ANIMAL), shift=-1000.0))
    expected = {"ANIMAL": "dynamic" if threshold == "dynamic" else "mean"}
    assert predictor.new_types == expected
    assert predictor.evaluate([], [])["new_types"] == expected
    assert task.new_types(RecognizerOptions(types=(task.recipe.types[1], ANIMAL))) == expected
    assert task.new_types(RecognizerOptions()) == {}
    (document,) = predict(predictor, [Document("d", "The cat sat.")])
    assert {m.type for m in document.mentions} <= {"ORG", "ANIMAL"}
    everything = task.predictor(model, RecognizerOptions(types=(ANIMAL,), shift=-1000.0, overlap="nested"))
    (document,) = predict(everything, [Document("d", "The cat sat.")])
    assert {m.type for m in document.mentions} == {"ANIMAL"}
    thresholds = model.encode_types(
        task.inputs(model, (task.recipe.types[1], ANIMAL)), torch.tensor([1, -1])
    ).thresholds
    if threshold == "dynamic":
        assert thresholds is None
    else:
        assert thresholds.tolist() == [[3, 4, 5], [2, 2, 5]]


def test_old_types_answer_as_before_when_asked_in_other_company() -> None:
    task = recognizer()
    model, documents = trained(task, corpus()), corpus()
    types = (ANIMAL, *task.recipe.types[::-1])
    asked = predict(task.predictor(model, RecognizerOptions(types=types, overlap="nested")), documents)
    plain = predict(task.predictor(model, RecognizerOptions(overlap="nested")), documents)
    for one, other in zip(asked, plain, strict=True):
        assert {s for s in spans(one) if s[2] != "ANIMAL"} == spans(other)


def test_a_learned_type_can_be_asked_for_by_its_name_alone(tmp_path: Path) -> None:
    task, documents = recognizer(), corpus()
    learned = task.recipe.types[1]
    assert learned.description
    save_checkpoint(tmp_path / "best", task, trained(task, documents, steps=20), {})
    asked = [
        rayner.load(tmp_path / "best", "cpu", types=[given], shift=-2.0).predict(documents)
        for given in (rayner.Type(name=learned.name), learned)
    ]
    assert asked[0] == asked[1]
    assert {m.type for d in asked[0] for m in d.mentions} == {learned.name}


@pytest.mark.parametrize(
    ("model", "types", "message"),
    [
        ({"type_encoding": "atomic"}, (ANIMAL,), "atomic"),
        ({}, (TypeSettings(name="ANIMAL"),), "ANIMAL: has no description; describe it"),
        (
            {},
            (TypeSettings(name="ANIMAL", description="a " * 999),),
            "ANIMAL: has a description of 999 sub-words",
        ),
        ({"type_encoding": "prototype"}, (ANIMAL,), "ANIMAL: has no prototypes"),
        # Linear in its length, and shown by its beginning.
        (
            {"type_encoding": "prototype"},
            (TypeSettings(name="ANIMAL", prototypes=("[" * 500_000,)),),
            r"ANIMAL: the prototype '\[{60}' marks no mention; put it in",
        ),
        ({}, (), "no types"),
    ],
)
def test_types_that_cannot_be_looked_for_are_refused(
    model: dict[str, Any], types: tuple[TypeSettings, ...], message: str
) -> None:
    task = recognizer(model=model)
    with pytest.raises(InputError, match=message) as told:
        task.predictor(built(task), RecognizerOptions(types=types))
    assert len(str(told.value)) < 500


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"threshold": "tuned"},
        {"threshold": "learned", "encoders": "shared"},
        {"type_encoding": "atomic"},
        {"shared_linear": True, "width_embedding_size": 0},
    ],
)
def test_a_checkpoint_predicts_as_the_model_it_was_made_of(tmp_path: Path, model: dict[str, Any]) -> None:
    task, documents = recognizer(model=model), corpus()
    learned = trained(task, documents, steps=20)
    save_checkpoint(tmp_path / "best", task, learned, {})
    before = list(predict(task.predictor(learned, RecognizerOptions(shift=-2.0)), documents))
    assert rayner.load(tmp_path / "best", "cpu", shift=-2.0).predict(documents) == before
    assert sum(len(d.mentions) for d in before)


def test_a_recipe_that_was_cut_short_is_said_to_be(tmp_path: Path) -> None:
    task = recognizer()
    save_checkpoint(tmp_path / "best", task, built(task), {})
    path = tmp_path / "best" / "recipe.yaml"
    whole = path.read_text()
    for cut in (0, 20, len(whole) // 2, len(whole) - 3):
        path.write_text(whole[:cut])
        with pytest.raises(CheckpointError, match=r"recipe\.yaml: (is cut short|cannot be read)"):
            load_checkpoint(tmp_path / "best", "cpu")
    path.write_text(whole[: len("task: recognizer\n")])
    with pytest.raises(CheckpointError, match=r"recipe\.yaml: is cut short"):
        version_of(tmp_path / "best")


def test_a_checkpoint_starts_another_task(tmp_path: Path) -> None:
    task = recognizer()
    learned = built(task)
    save_checkpoint(tmp_path / "best", task, learned, {})
    other = tagger(encoder=str(tmp_path / "best"))
    model = other.build()
    for name, weight in learned.text_encoder.named_parameters():
        assert torch.equal(weight, model.text_encoder.get_parameter(name))
    assert found(other, model, corpus())[0].text == corpus()[0].text


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([["LAW"]], r"^types\.0: \['LAW'\] has no keys; write `name: \.\.\.`"),
        (
            [{"name": "LAW", "descripton": "acts"}],
            r"^types\.0\.descripton: unknown key; did you mean 'descript",
        ),
        (rayner.Type(name="LAW"), "^types: .*is one type: write it in a list"),
        ("LAW", "^types: "),
        (b"LAW", "^types: "),
        (np.array("LAW"), "^types: "),
    ],
)
def test_types_that_are_none_are_named_with_what_they_may_have(types: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RecognizerOptions.of({"types": types}, "recognizer")


def test_a_type_may_be_written_as_its_name_alone() -> None:
    options = RecognizerOptions.of({"types": ["LAW", {"name": "PER"}]}, "recognizer")
    assert options == RecognizerOptions.of({"types": [{"name": "LAW"}, {"name": "PER"}]}, "recognizer")
    assert options == RecognizerOptions.of({"types": (name for name in ("LAW", "PER"))}, "recognizer")
    assert options == RecognizerOptions.of({"types": np.array(["LAW", "PER"])}, "recognizer")
    assert RecognizerOptions.of({"types": {"LAW"}}, "recognizer").types == options.types[:1]


@pytest.mark.parametrize(("encoding", "lacks"), [("guideline", "description"), ("prototype", "prototypes")])
def test_a_type_without_its_text_is_refused_before_examples_are_made(
    tmp_path: Path, encoding: str, lacks: str
) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text('{"text": "Ada went.", "mentions": [{"start": 0, "end": 3, "type": "PERSON"}]}\n')
    changes = {"corpus": {"train": [str(file)]}, "types": [{"name": "PERSON"}]}
    with pytest.raises(InputError, match=f"PERSON: has no {lacks}"):
        recognizer(**changes, model={"type_encoding": encoding}).units("train")
    assert recognizer(**changes, model={"type_encoding": "keyword"}).units("train")


class Words:
    cls_id, sep_id, pad_id = 1, 2, 0

    def __call__(self, text: str) -> Any:
        return [7 if word == "[" else 9 for word in text.split()], []


def test_the_anchor_of_a_prototype_is_its_opening_bracket() -> None:
    words: Any = Words()
    prototype = TypeSettings(name="X", prototypes=("The old [[Black Sea]] froze .",))
    found = type_inputs([prototype], "prototype", words, 64)
    assert found.ids[0, found.anchor[0]] == 7


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a [[b]] c", ("a ", "b", " c")),
        ("[[b\nc]]", ("", "b\nc", "")),
        ("a [[b]] [[c]]", ("a ", "b", " [[c]]")),
        ("[[[b]]]", ("", "[b", "]")),
        ("[[]]]", ("", "]", "")),
        ("]] [[b [[c]]", ("]] ", "b [[c", "")),
        ("a [[]] b", None),
        ("a ]] b [[", None),
        ("a", None),
    ],
)
def test_the_first_mention_of_a_prototype_is_the_marked_one(
    text: str, parts: tuple[str, str, str] | None
) -> None:
    class Noted(Words):
        def __call__(self, text: str) -> Any:
            seen.append(text)
            return super().__call__(text)

    seen: list[str] = []
    words: Any = Noted()
    prototype = TypeSettings(name="X", prototypes=(text,))
    if parts is None:
        with pytest.raises(InputError, match="marks no mention"):
            type_inputs([prototype], "prototype", words, 64)
        assert not seen
    else:
        type_inputs([prototype], "prototype", words, 64)
        assert tuple(seen[:3]) == parts
