"""Fine types of given mentions over HTTP, from a typer alone and from a pipeline, without Ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import rayner
from rayner.data.schema import Document, Mention
from rayner.serving.application_settings import ModelSettings
from rayner.tasks.checkpoint import version_of
from tests.serving.checkpoints import PEOPLE, TEXTS, pipeline_folder, recognizer_folder
from tests.serving.running import client_of

LIMITS = {"documents": 20, "characters": 20_000, "types": 4, "mentions": 9}
SPAN = {"start": 0, "end": 3}


def one(text: str, start: int, end: int) -> dict[str, Any]:
    return {"documents": [{"text": text, "mentions": [{"start": start, "end": end}]}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline's checkpoints, index and file."""
    return pipeline_folder(tmp_path_factory.mktemp("pipeline"), PEOPLE)


def serving(checkpoint: Path) -> TestClient:
    return client_of(ModelSettings(checkpoint=str(checkpoint)), LIMITS)


@pytest.fixture(scope="module")
def alone(folder: Path) -> Iterator[TestClient]:
    with serving(folder / "typer") as client:
        yield client


def marked(document: Document) -> dict[str, Any]:
    spans = [{"start": m.start, "end": m.end} for m in document.mentions]
    return {"text": document.text, "mentions": spans}


def test_a_typer_alone_has_the_answers_of_predict(alone: TestClient, folder: Path) -> None:
    """The mentions are in the order of the request, and one without a word has no types."""
    last_first = (Mention(5, 9, "x"), Mention(0, 3, "x"), Mention(4, 5, "x"))
    given = [Document("a", "Anna went 🙂", last_first), Document("1", TEXTS[0]), Document("2", "")]
    rows: list[dict[str, Any]] = [marked(document) for document in given]
    rows[0]["document_id"] = "a"
    reply = alone.post("/v1/type", json={"documents": rows})
    assert reply.status_code == 200, reply.text
    expected = rayner.load(folder / "typer", "cpu").predict(given)
    found = reply.json()
    assert [d["document_id"] for d in found["documents"]] == ["a", "1", "2"]
    for document, answer in zip(found["documents"], expected, strict=True):
        assert document["mentions"] == [
            {
                "start": m.start,
                "end": m.end,
                "text": answer.text[m.start : m.end],
                "types": [{"name": name, "score": pytest.approx(score, abs=1e-4)} for name, score in m.types],
            }
            for m in answer.mentions
        ]
    assert [bool(m["types"]) for m in found["documents"][0]["mentions"]] == [True, True, False]
    assert found["versions"]["typer"] == version_of(folder / "typer")
    assert found["versions"]["recognizer"] is None
    assert found["new_types"] == {}


def test_a_pipeline_types_given_mentions_as_those_that_it_finds(folder: Path) -> None:
    with serving(folder / "pipeline.yaml") as client:
        body = {"documents": [{"text": " ".join(TEXTS[:4])}]}
        (document,) = client.post("/v1/recognize", json=body).json()["documents"]
        assert document["mentions"]
        spans = [{"start": m["start"], "end": m["end"]} for m in document["mentions"]]
        reply = client.post("/v1/type", json={"documents": [body["documents"][0] | {"mentions": spans}]})
        described = client.get("/v1/models").json()
    found = reply.json()
    (typed,) = found["documents"]
    assert [m["types"] for m in typed["mentions"]] == [
        [{"name": t["name"], "score": pytest.approx(t["score"], abs=1e-4)} for t in m["types"]]
        for m in document["mentions"]
    ]
    assert {name for name, version in found["versions"].items() if version} == {"contexts", "typer"}
    assert described["typer"]["types"] == ["PER", "ORG", "LOC"]


def test_a_request_asks_for_some_types_and_for_more_of_them(alone: TestClient) -> None:
    def types(**body: Any) -> set[str]:
        documents = [{"text": TEXTS[0], "mentions": [SPAN]}]
        reply = alone.post("/v1/type", json={"documents": documents, **body})
        assert reply.status_code == 200, reply.text
        return {t["name"] for t in reply.json()["documents"][0]["mentions"][0]["types"]}

    assert types(shift=-1000) == {"PER", "ORG", "LOC"}
    assert types(types=[{"name": "LOC"}]) == {"LOC"}
    assert types(types=[{"name": "LOC"}, {"name": "PER"}], shift=-1000) == {"LOC", "PER"}
    assert len(types(shift=1000)) == 1


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"documents": [{"text": "Ada"}]}, 422, "documents.0.mentions"),
        (
            one("Ada", 0, 4),
            422,
            "documents.0.mentions.0",
        ),
        (
            one("Ada", 2, 2),
            422,
            "documents.0.mentions.0",
        ),
        (
            one("🙂", 0, 2),
            422,
            "documents.0.mentions.0",
        ),
        ({"documents": [{"text": "Ada", "mentions": [SPAN] * 10}]}, 413, "documents.0.mentions"),
        ({"documents": [{"text": "Ada", "mentions": []}] * 21}, 413, "documents"),
        ({"documents": [{"text": "A" * 20_001, "mentions": []}]}, 413, "documents.0.text"),
        ({"documents": [], "types": [{"name": str(n)} for n in range(5)]}, 413, "types"),
        ({"documents": [], "types": [{"name": "PER"}, {"name": "PER"}]}, 422, "types.1.name"),
        ({"documents": [], "types": [{"name": "PER"}, {"name": "GHOST"}]}, 422, "types.1"),
        ({"documents": [], "overlap": "flat"}, 422, "overlap"),
    ],
)
def test_what_is_wrong_is_named(alone: TestClient, body: Any, status: int, field: str) -> None:
    reply = alone.post("/v1/type", json=body)
    assert (reply.status_code, reply.json()["detail"][0]["field"]) == (status, field), reply.text


def test_who_lacks_a_typer_or_a_recognizer_says_so(alone: TestClient, tmp_path: Path) -> None:
    reply = alone.post("/v1/recognize", json={"documents": [{"text": "Ada"}]})
    assert reply.json()["detail"][0]["message"] == "this service has no recognizer"
    described = alone.get("/v1/models").json()
    assert (described["recognizer"], [s["stage"] for s in described["stages"]]) == (None, ["types"])
    assert (described["typer"]["types"], described["typer"]["shift"]) == (["PER", "ORG", "LOC"], 0)
    with serving(recognizer_folder(tmp_path / "best", steps=1)) as client:
        reply = client.post("/v1/type", json={"documents": [{"text": "Ada", "mentions": [SPAN]}]})
    assert (reply.status_code, reply.json()["detail"][0]["message"]) == (422, "this service has no typer")
