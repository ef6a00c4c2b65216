"""A checkpoint whose recipe has a `context`, in a corpus job and over HTTP: what it read is shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import rayner
from rayner.data.schema import Document
from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.http import create_app
from rayner.serving.service import Service
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.stages import Pipeline, read_pipeline
from tests.runtime.annotation.annotate_texts import here, rows, write_jsonl
from tests.serving.checkpoints import PEOPLE, TEXTS, ranker_folder, standardizer_folder
from tests.tasks.small import corpus, recognizer, tagger, trained

BOOKS = [" ".join(TEXTS), TEXTS[0], "", "Nobody slept. Ada Lovelace came. Nobody slept."]


@pytest.fixture(scope="module", params=["recognizer, by its own methods", "tagger, with a ranker"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contexts")
    values: dict[str, Any] = {"methods": ["before", "same_noun"], "count": 2}
    make = recognizer if request.param.startswith("recognizer") else tagger
    if make is tagger:
        values["ranker"] = str(ranker_folder(folder / "ranker"))
    task = make(windows={"length": 40, "overlap": 10, "context": 12}, context=values)
    save_checkpoint(folder / "best", task, trained(task, corpus(), 40), {})
    return folder / "best"


@pytest.fixture(scope="module")
def loaded(checkpoint: Path) -> Pipeline:
    return rayner.load(checkpoint, "cpu")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    standardizer, index = standardizer_folder(tmp_path_factory.mktemp("people"), PEOPLE)
    return {"standardizer": str(standardizer), "index": str(index)}


def places(mentions: Any) -> list[tuple[int, int, str]]:
    return [(m["start"], m["end"], m["type"]) for m in mentions]


def expected(documents: list[Document]) -> list[list[tuple[int, int, str]]]:
    return [[(m.start, m.end, m.type) for m in document.mentions] for document in documents]


@pytest.mark.parametrize("path", ["/v1/recognize", "/v1/annotate"])
def test_over_http_it_shows_the_contexts_of_its_recipe(
    checkpoint: Path, loaded: Pipeline, people: dict[str, str], path: str
) -> None:
    service = Service(ApplicationSettings(), device="cpu")
    settings = {"checkpoint": str(checkpoint), "knowledge_bases": {"people": people}}
    asyncio.run(service.load(ModelSettings.model_validate(settings)))
    answers = loaded.predict(BOOKS)
    body = {"documents": [{"text": text} for text in BOOKS]}
    with TestClient(create_app(service)) as client:
        plain, shown = (client.post(path, json={**body, "contexts": asked}).json() for asked in (False, True))
    for reply in (plain, shown):
        assert [places(d["mentions"]) for d in reply["documents"]] == expected(answers)
    assert {d["sentences"] is None for d in plain["documents"]} == {True}
    read = [loaded.with_contexts(answer) for answer in answers]
    assert any(map(any, (document.sentence_contexts or () for document in read)))
    for document, found in zip(shown["documents"], read, strict=True):
        assert [(s["start"], s["end"]) for s in document["sentences"]] == list(found.sentences or ())
        assert [[c["text"] for c in s["contexts"]] for s in document["sentences"]] == [
            [context.text for context in contexts] for contexts in found.sentence_contexts or ()
        ]


def test_annotate_has_its_answers(checkpoint: Path, loaded: Pipeline, tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", BOOKS)
    counts = here(given, tmp_path / "out", model=read_pipeline(checkpoint))
    assert (counts["documents"], counts["rejected"]) == (len(BOOKS), 0)
    assert [places(row["mentions"]) for row in rows(tmp_path / "out")] == expected(loaded.predict(BOOKS))
