from __future__ import annotations

import json
from pathlib import Path

import pytest

from rayner.config import CorpusSettings
from rayner.errors import CorpusError
from rayner.tasks.splits import change_of, document_units, read_documents
from tests.whole_corpora import split_documents


def test_several_types_of_a_corpus_may_be_one_of_the_recipe(tmp_path: Path) -> None:
    mentions = [{"start": 0, "end": 3, "type": "CITY"}, {"start": 4, "end": 7, "type": "PER"}]
    row = {
        "document_id": "d",
        "text": "Ulm Ada",
        "mentions": mentions,
        "annotated_types": ["CITY", "LAND", "PER"],
    }
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(row))
    settings = CorpusSettings(train=(str(path),), rename={"CITY": "PLACE", "LAND": "PLACE"})
    (document,) = split_documents(settings, "train")
    assert [m.type for m in document.mentions] == ["PLACE", "PER"]
    assert document.annotated_types == ("PLACE", "PER")


def test_a_share_of_the_training_documents_is_held_out(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(json.dumps({"document_id": f"d{i}", "text": f"Ulm {i}"}) for i in range(50)))
    settings = CorpusSettings(train=(str(path),), dev_fraction=0.2)
    train, dev = (
        {d.document_id for d in split_documents(settings, "train")},
        {d.document_id for d in split_documents(settings, "dev")},
    )
    assert train | dev == {f"d{i}" for i in range(50)}
    assert not train & dev
    assert 2 <= len(dev) <= 20


def test_the_types_of_a_dictionary_are_those_of_the_recipe_too(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps({"document_id": "d", "text": "Ulm Ada"}))
    (tmp_path / "names.txt").write_text("CITY\tUlm\nPER\tAda\n")
    settings = CorpusSettings(
        train=(str(tmp_path / "train.jsonl"),),
        dictionary=str(tmp_path / "names.txt"),
        rename={"CITY": "PLACE"},
    )
    (document,) = split_documents(settings, "train")
    assert [m.type for m in document.mentions] == ["PLACE", "PER"]
    assert document.annotated_types == ("PLACE", "PER")


def test_what_a_file_was_annotated_for_is_said_by_the_names_of_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    mention = {"start": 0, "end": 3, "type": "MISC"}
    path.write_text(json.dumps({"document_id": "d", "text": "Ulm", "mentions": [mention]}))
    rename = {"MISC": "ORG", "ORG": "COMPANY"}
    settings = CorpusSettings(train=(str(path),), rename=rename, annotated={str(path): ("ORG",)})
    change = change_of(settings, "train")
    (unit,) = document_units(settings, "train", change).units
    (document,) = read_documents(unit, change)
    assert [m.type for m in document.mentions] == ["ORG"]
    assert document.annotated_types == ("ORG",)


def test_what_cannot_be_read_of_a_corpus_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "train.jsonl"
    path.touch()
    corpus = CorpusSettings(train=(str(path),))
    with pytest.raises(CorpusError, match=r"train\.jsonl: an empty file"):
        document_units(corpus, "train", change_of(corpus, "train"))
    assert not caplog.text
    path.write_text('{"text": "Ulm"}\n{"text": 3}\n')
    assert document_units(corpus, "train", change_of(corpus, "train")).units
    assert "cannot be read: 1 document or mention (`rayner corpus check" in caplog.text
