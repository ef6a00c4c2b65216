"""What a single request can cost the others, without Ray: malformed bodies, long answers, kept types."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from rayner.serving.application_settings import ModelSettings
from rayner.tasks.recognizer.predictor import Recognizer
from tests.serving.checkpoints import PEOPLE, TEXTS, pipeline_folder
from tests.serving.running import client_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pipeline_folder(tmp_path_factory.mktemp("pipeline"), PEOPLE)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with client_of(
        ModelSettings(checkpoint=str(folder / "pipeline.yaml")), {"candidates": 40, "type_tokens": 40}
    ) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        ("recognize", {"documents": [0] * 50_000}, ["documents.0"]),
        ("recognize", {"documents": [{"text": "a"}], "types": [0] * 50_000}, ["types.0"]),
        ("standardize", {"mentions": [0] * 50_000}, ["mentions.0"]),
        (
            "type",
            {"documents": [{"text": "a", "mentions": [{"start": -1, "end": 0}] * 50_000}]},
            ["documents.0.mentions.0.start", "documents.0.mentions.0.end"],
        ),
        ("recognize", {"documents": [], **{f"a{n}": 1 for n in range(50_000)}}, [f"a{n}" for n in range(5)]),
        (
            "recognize",
            {"documents": [{"text": "a", **{f"a{n}": 1 for n in range(50_000)}}]},
            [f"documents.0.a{n}" for n in range(5)],
        ),
    ],
)
def test_of_a_body_that_is_wrong_throughout_the_first_errors_are_told(
    client: TestClient, path: str, body: dict[str, Any], fields: list[str]
) -> None:
    """All of them were a reply fifty times as large as the body, for which other requests waited."""
    reply = client.post(f"/v1/{path}", json=body)
    assert (reply.status_code, [row["field"] for row in reply.json()["detail"]]) == (422, fields)


def test_mentions_get_so_many_candidates_together_at_most(client: TestClient) -> None:
    body: dict[str, Any] = {"documents": [{"text": " ".join(TEXTS)}], "shift": -1000, "overlap": "nested"}
    (document,) = client.post("/v1/recognize", json=body).json()["documents"]
    found = Counter(mention["type"] for mention in document["mentions"])
    # The pipeline links people alone.
    assert min(found["PER"], found["LOC"]) > 20
    reply = client.post("/v1/annotate", json={**body, "top_k": 20})
    told = {
        "field": "top_k",
        "message": f"{20 * found['PER']:,} candidates: so many mentions, with so many candidates each",
        "hint": "ask for fewer, or send less: 40 at most",
    }
    assert (reply.status_code, reply.json()["detail"]) == (413, [told])
    for fewer in ({"types": [{"name": "LOC"}], "top_k": 20}, {"shift": 4, "top_k": 1}):
        assert client.post("/v1/annotate", json={**body, **fewer}).status_code == 200
    for mentions, status in ((2, 200), (3, 413)):
        asked = {"mentions": ["Ada"] * mentions, "top_k": 20}
        assert client.post("/v1/standardize", json=asked).status_code == status


def test_types_have_so_many_sub_words_together_at_most(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model reads them in one piece: a replica that is at it for too long would be replaced."""
    town: dict[str, Any] = {"name": "TOWN", "description": "town"}
    body: dict[str, Any] = {"documents": [{"text": "Ada"}], "types": [{**town, "descriptions": ["a a"] * 19}]}
    assert client.post("/v1/recognize", json=body).status_code == 200

    def encode(*_: Any) -> None:
        raise AssertionError("they are read")

    monkeypatch.setattr("rayner.models.bi_encoder.anchor_states", encode)
    body["types"][0]["descriptions"].append("a a")
    for path in ("recognize", "annotate"):
        reply = client.post(f"/v1/{path}", json=body)
        told = {
            "field": "types",
            "message": "42 sub-words in what describes them",
            "hint": "send fewer or shorter ones: 40 at most",
        }
        assert (reply.status_code, reply.json()["detail"]) == (413, [told])
    asked = {"documents": [{"text": "Ada"}], "shift": 1}
    assert client.post("/v1/recognize", json=asked).status_code == 200


def test_redirects_stay_where_the_request_came_in(client: TestClient) -> None:
    """Behind TLS that ends before the service, its own address begins with http."""
    reply = client.post("/v1/recognize/?a=b", json={}, follow_redirects=False)
    assert (reply.status_code, reply.headers["Location"]) == (307, "/v1/recognize?a=b")


def test_no_other_page_than_docs_loads_from_other_hosts(client: TestClient) -> None:
    assert [client.get(path).status_code for path in ("/docs", "/redoc")] == [200, 404]


def test_no_more_sets_of_types_are_kept_than_are_asked_for(folder: Path) -> None:
    gc.collect()
    before = sum(isinstance(one, Recognizer) for one in gc.get_objects())
    settings = ModelSettings(checkpoint=str(folder / "recognizer"))
    with client_of(settings, batching={"type_sets": 16}) as client:
        for number in range(40):
            types = [{"name": f"T{number}", "description": "people"}]
            body = {"documents": [{"text": "Anna"}], "types": types, "shift": 0.5}
            assert client.post("/v1/recognize", json=body).status_code == 200
        gc.collect()
        kept = sum(isinstance(one, Recognizer) for one in gc.get_objects()) - before
    # Of the 16 last sets those with the shift, and those that they were made from.
    assert kept <= 2 * 16 + 4
