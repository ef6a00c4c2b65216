"""A pipeline of all four stages answers alike in Python, annotated here and on Ray, evaluated and served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

import rayner
from rayner.data.schema import Document, context_to_row, mention_to_row, sentence_rows
from rayner.data.writers import write_jsonl
from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.http import create_app
from rayner.serving.service import Service
from tests.runtime.annotation.annotate_texts import rows
from tests.serving.checkpoints import PEOPLE, TEXTS, pipeline_folder

BOOKS = [Document("b0", " ".join(TEXTS)), Document("b1", TEXTS[0]), Document("b2", "Nobody slept. Ada came.")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = pipeline_folder(tmp_path_factory.mktemp("pipeline"), PEOPLE)
    write_jsonl(BOOKS, folder / "books.jsonl")
    return folder


@pytest.fixture(scope="module")
def loaded(folder: Path) -> list[Document]:
    """The answers in Python, by which the others are judged."""
    found = rayner.load(folder / "pipeline.yaml", "cpu").predict(BOOKS)
    mentions = [mention for document in found for mention in document.mentions]
    assert any(mention.types for mention in mentions)
    assert any(mention.name for mention in mentions)
    assert all(one.name and one.matched for mention in mentions for one in mention.candidates)
    read = [(d, context) for d in found for of in d.sentence_contexts or () for context in of]
    assert read
    assert all(d.text[context.start : context.end] == context.text for d, context in read)
    return found


def known(row: Any) -> Any:
    """The row without what is null or empty, numbers as far as float32 and other batches let them agree."""
    if isinstance(row, float):
        return pytest.approx(row, abs=1e-4)
    if isinstance(row, dict):
        return {name: known(value) for name, value in row.items() if value not in (None, [])}
    return [known(value) for value in row] if isinstance(row, list) else row


def mentions_of(documents: list[Document]) -> list[Any]:
    return [known([mention_to_row(mention) for mention in document.mentions]) for document in documents]


@pytest.mark.parametrize("workers", [0, 1])
def test_annotate_keeps_all_that_python_says(
    folder: Path, loaded: list[Document], tmp_path: Path, workers: int, request: pytest.FixtureRequest
) -> None:
    if workers:
        request.getfixturevalue("ray_cluster")
    annotate(
        folder / "pipeline.yaml",
        [folder / "books.jsonl"],
        tmp_path / "out",
        also=("jsonl", "contexts"),
        workers=workers,
    )
    found = rows(tmp_path / "out")
    assert [row["document_id"] for row in found] == [document.document_id for document in loaded]
    sentences = [known(sentence_rows(document)) for document in loaded]
    (path,) = (tmp_path / "out" / "_jsonl").iterdir()
    for answers in (found, [json.loads(line) for line in path.read_text("utf-8").splitlines()]):
        assert [known_row(row["mentions"]) for row in answers] == mentions_of(loaded)
        assert [known_row(row["sentences"]) for row in answers] == sentences


def known_row(row: Any) -> Any:
    """As `known`, of what is compared with an approximation."""
    if isinstance(row, dict):
        return {name: known_row(value) for name, value in row.items() if value not in (None, [])}
    return [known_row(value) for value in row] if isinstance(row, list) else row


def test_without_the_option_there_is_no_column_of_contexts(folder: Path, tmp_path: Path) -> None:
    annotate(folder / "pipeline.yaml", [folder / "books.jsonl"], tmp_path / "out", workers=0)
    assert "sentences" not in pq.read_table(tmp_path / "out").column_names


def test_evaluate_scores_the_same_answers(folder: Path, loaded: list[Document], tmp_path: Path) -> None:
    evaluate(folder / "pipeline.yaml", folder / "books.jsonl", device="cpu", out=tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "evaluation" / "predictions.parquet")
    assert [known_row(row) for row in table["mentions"].to_pylist()] == mentions_of(loaded)


def test_serve_replies_with_them(folder: Path, loaded: list[Document]) -> None:
    service = Service(ApplicationSettings(), device="cpu")
    settings = ModelSettings.model_validate({"checkpoint": str(folder / "pipeline.yaml")})
    asyncio.run(service.load(settings))
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        texts = [{"document_id": document.document_id, "text": document.text} for document in BOOKS]
        reply = client.post("/v1/annotate", json={"documents": texts, "contexts": True}).json()
    for document, answer in zip(loaded, reply["documents"], strict=True):
        assert document.document_id == answer["document_id"]
        # HTTP adds the mention's text, and has no chains and heads, which nobody asks a pipeline for.
        found = [{k: v for k, v in row.items() if k != "text"} for row in answer["mentions"]]
        assert known_row(found) == mentions_of([document])[0]
        read = [
            [known(context_to_row(one)) for one in contexts] for contexts in document.sentence_contexts or ()
        ]
        assert [known_row(sentence["contexts"]) for sentence in answer["sentences"]] == read
