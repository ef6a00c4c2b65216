"""What `corpus check` says of the splits of a recipe is what training says of them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from rayner.config import LabelSettings
from rayner.data.schema import Document, Mention
from rayner.data.writers import write_parquet
from rayner.errors import InputError
from rayner.runtime.corpora.check import check
from rayner.runtime.corpora.part_findings import PartCheck
from rayner.supervision.dictionaries import Dictionary, Name
from rayner.tasks.kinds.documents import StreamedDocuments
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.splits import Change


def _recipe(folder: Path, train: list[Document], dev: list[Document] | None = None, **changes: Any) -> Any:
    """A recognizer of one type, and its files: those of dev where there are any."""
    corpus: dict[str, Any] = {}
    for split, documents in (("train", train), ("dev", dev)):
        if documents is not None:
            path = folder / f"{split}.parquet"
            write_parquet(documents, path)
            corpus[split] = [str(path)]
    types = [{"name": "Disease", "description": "diseases"}]
    values = {"task": "recognizer", "encoder": "random:8x1", "types": types, "model": {"max_span_width": 2}}
    return parse_recipe({**values, "corpus": {**corpus, **changes}}, "test")


def _document(document_id: str, type_: str | None = None, **fields: Any) -> Document:
    mentions = () if type_ is None else (Mention(0, 6, type_),)
    return Document(document_id, f"Ataxia {document_id} hurts.", mentions, **fields)


def _told(recipe: Any) -> list[tuple[str, str, str | None]]:
    return [(one["severity"], one["kind"], one["split"]) for one in check([], recipe, workers=0)["findings"]]


def _dictionary(folder: Path, *lines: str) -> dict[str, Any]:
    (folder / "names.tsv").write_text("".join(f"{line}\n" for line in lines))
    return {"dictionary": str(folder / "names.tsv")}


def _of_train(recipe: Any) -> str:
    """What the check says of train as an error, or is ended by."""
    try:
        findings = check([], recipe, workers=0)["findings"]
    except InputError as error:
        return str(error)
    (one,) = (one for one in findings if one["kind"] == "nothing to learn")
    return f"{one['where']}: {one['what']}; {one['hint']}"


def _refusal(recipe: Any) -> str:
    with pytest.raises(InputError) as refused:
        train_task(recipe).units("train")
    return str(refused.value)


@pytest.mark.parametrize("own", [None, "PER"])
def test_train_is_seen_with_the_labels_of_a_dictionary(tmp_path: Path, own: str | None) -> None:
    names = _dictionary(tmp_path, "DIS\tataxia") | {"rename": {"DIS": "Disease"}}
    recipe = _recipe(tmp_path, [_document("a", own)], [_document("v", "Disease")], **names)
    found = check([], recipe, workers=0)
    assert (found["findings"], found["types"]) == ([], {"Disease": 2})


def test_a_label_that_is_too_wide_is_told(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, [_document("a")], **_dictionary(tmp_path, "Disease\tataxia a hurts"))
    assert _told(recipe) == [("error", "too wide", "train")]


def test_a_check_with_a_dictionary_goes_to_other_processes() -> None:
    change = Change({}, Dictionary([Name("ataxia", "Disease")], LabelSettings()))
    copy = pickle.loads(pickle.dumps(PartCheck({"train": change}, "outer", None, None, "")))
    assert copy.changes["train"](_document("a")).mentions == (Mention(0, 6, "Disease"),)


@pytest.mark.parametrize("lines", [None, ["ataxia"], ["Disease\tflu"], ["DISEASE\tataxia"]])
def test_what_training_refuses_of_a_dictionary_is_told(tmp_path: Path, lines: list[str] | None) -> None:
    names = {"dictionary": str(tmp_path / "none.tsv")} if lines is None else _dictionary(tmp_path, *lines)
    recipe = _recipe(tmp_path, [_document("a", "Disease")], [_document("v", "Disease")], **names)
    assert _of_train(recipe) == _refusal(recipe)


@pytest.mark.parametrize("type_", [None, "?", "PER"])
def test_train_without_a_mention_to_learn_is_an_error(tmp_path: Path, type_: str | None) -> None:
    recipe = _recipe(tmp_path, [_document("a", type_)], [_document("v", "Disease")])
    assert _of_train(recipe) == _refusal(recipe)
    assert ("error", "nothing to learn", "train") in _told(recipe)
    assert ("error", "empty split", "train") not in _told(recipe)


def test_a_fraction_that_leaves_a_part_empty_is_an_error(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, [_document("a", "Disease")], dev_fraction=0.1)
    assert _of_train(recipe) == _refusal(recipe)


def test_what_is_set_apart_to_calibrate_by_leaves_something_to_learn_from(tmp_path: Path) -> None:
    def recipe_of(count: int) -> Any:
        recipe = _recipe(tmp_path, [_document(str(number), "Disease") for number in range(count)])
        return parse_recipe(recipe.model_dump(mode="json") | {"calibration": {"fraction": 0.5}}, "test")

    alone = recipe_of(1)
    assert _of_train(alone) == _refusal(alone)
    assert _told(recipe_of(20)) == []


def test_of_documents_that_are_cut_each_part_is_looked_at(tmp_path: Path) -> None:
    numbers = [str(number) for number in range(20)]
    plain = _recipe(tmp_path, [_document(number) for number in numbers], dev_fraction=0.3)
    dev = {document.document_id for document in StreamedDocuments(plain.corpus, "dev")}
    only_dev = [_document(number, "Disease" if number in dev else None) for number in numbers]
    recipe = _recipe(tmp_path, only_dev, dev_fraction=0.3)
    assert _of_train(recipe) == _refusal(recipe)
    only_train = [_document(number, None if number in dev else "Disease") for number in numbers]
    assert _told(_recipe(tmp_path, only_train, dev_fraction=0.3)) == [("warning", "nothing to score", "dev")]


@pytest.mark.parametrize("words", [(), None])
def test_mentions_of_a_document_without_a_word(tmp_path: Path, words: tuple[()] | None) -> None:
    train = [_document("a", "Disease"), _document("b", "Disease", words=words)]
    assert _told(_recipe(tmp_path, train)) == ([("error", "no word", "train")] if words == () else [])


@pytest.mark.parametrize("type_", ["?", "PER"])
def test_dev_with_mentions_of_other_types_alone_is_a_warning(tmp_path: Path, type_: str) -> None:
    recipe = _recipe(tmp_path, [_document("a", "Disease")], [_document("v", type_)])
    assert ("warning", "nothing to score", "dev") in _told(recipe)
    assert {severity for severity, *_ in _told(recipe)} == {"warning"}
