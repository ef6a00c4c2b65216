"""The HTTP interface, without Ray."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import rayner
from rayner.config import TypeSettings
from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.http import create_app
from rayner.serving.service import Service
from rayner.tasks.checkpoint import save_checkpoint, version_of
from tests.serving.checkpoints import TEXTS, recognizer_folder, tagger_folder
from tests.serving.running import client_of
from tests.tasks.small import built, recognizer

Rows = list[list[tuple[Any, ...]]]
LIMITS = {"documents": 20, "characters": 20_000, "types": 4, "body_bytes": 100_000, "found": 2000}
LONG = " ".join(TEXTS * 12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recognizer_folder(tmp_path_factory.mktemp("checkpoint") / "best")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with serving(folder) as client:
        yield client


def serving(folder: Path, keys: tuple[str, ...] = ()) -> TestClient:
    return client_of(ModelSettings(checkpoint=str(folder)), LIMITS, keys)


def recognize(client: TestClient, texts: list[str], **rest: Any) -> dict[str, Any]:
    reply = client.post("/v1/recognize", json={"documents": [{"text": t} for t in texts], **rest})
    assert reply.status_code == 200, reply.text
    return reply.json()


def rows(documents: list[Any]) -> Rows:
    return [
        [(m.start, m.end, m.type, pytest.approx(m.score, abs=1e-4)) for m in d.mentions] for d in documents
    ]


def replied(reply: dict[str, Any]) -> Rows:
    return [
        [(m["start"], m["end"], m["type"], m["score"]) for m in d["mentions"]] for d in reply["documents"]
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"shift": -4.0, "overlap": "nested"},
        {"shift": 3},
        {
            "types": [{"name": "LOC"}, {"name": "TOWN", "description": "towns and villages"}],
            "shift": -1.0,
        },
    ],
)
def test_answers_are_those_of_predict(client: TestClient, folder: Path, body: dict[str, Any]) -> None:
    options = dict(body)
    if "types" in body:
        own = {t.name: t for t in recognizer().recipe.types}
        options["types"] = (own["LOC"], TypeSettings(name="TOWN", description="towns and villages"))
    loaded = rayner.load(folder, "cpu", **options)
    texts = [*TEXTS, LONG, "", "   ", "Żółć 🎉 Marie Curie in London \U0001f600."]
    expected = rows(loaded.predict(texts))
    assert any(expected)
    assert replied(recognize(client, texts, **body)) == expected


def test_a_reply_says_what_made_it(client: TestClient, folder: Path) -> None:
    reply = recognize(client, [TEXTS[0], LONG])
    assert reply["versions"]["recognizer"] == version_of(folder)
    assert [d["document_id"] for d in reply["documents"]] == ["0", "1"]
    assert reply["documents"][0]["windows"] == 1
    assert reply["documents"][1]["windows"] > 5
    for mention in reply["documents"][1]["mentions"]:
        assert mention["text"] == LONG[mention["start"] : mention["end"]]
    assert client.get("/v1/models").json()["recognizer"]["version"] == version_of(folder)


@pytest.mark.parametrize("threshold", ["dynamic", "learned", "tuned"])
def test_a_reply_says_which_types_are_new_and_how_they_have_a_threshold(
    tmp_path: Path, threshold: str
) -> None:
    task = recognizer(model={"threshold": threshold})
    save_checkpoint(tmp_path / "best", task, built(task), {})
    client = serving(tmp_path / "best")
    types = [{"name": "LOC"}, {"name": "TOWN", "description": "towns and villages"}]
    for shift in (0.0, 1.0):
        reply = recognize(client, TEXTS[:1], types=types, shift=shift)
        assert reply["new_types"] == {"TOWN": "dynamic" if threshold == "dynamic" else "mean"}
    assert recognize(client, TEXTS[:1])["new_types"] == {}


def test_names_of_documents_come_back(client: TestClient) -> None:
    names = ["a", "a", ""]
    body = {"documents": [{"text": TEXTS[0], "document_id": name} for name in names]}
    reply = client.post("/v1/recognize", json=body).json()
    assert [d["document_id"] for d in reply["documents"]] == names


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "documents"),
        ({"documents": "x"}, "documents"),
        ({"documents": [{"text": "a"}, {"txt": "b"}]}, "documents.1.text"),
        ({"documents": [{"text": None}]}, "documents.0.text"),
        ({"documents": [], "shift": "much"}, "shift"),
        ({"documents": [], "shift": 1e9}, "shift"),
        ({"documents": [], "shift": True}, "shift"),
        ({"documents": [], "shift": "0.5"}, "shift"),
        ({"documents": [], "overlap": "both"}, "overlap"),
        ({"documents": [], "threshold": 1}, "threshold"),
        ({"documents": [], "types": [{"name": ""}]}, "types.0.name"),
        ({"documents": [], "types": [{"name": "LOC"}, {"name": "?", "description": "any"}]}, "types.1.name"),
        ({"documents": [], "types": []}, "types"),
        ({"documents": [], "types": [{"name": "LOC"}, {"name": "TOWN"}]}, "types.1"),
        ({"documents": [], "types": [{"name": "LOC"}, {"name": "TOWN", "description": " "}]}, "types.1"),
        ({"documents": [], "types": [{"name": "LOC"}, {"name": "TOWN", "descriptions": [""]}]}, "types.1"),
        ({"documents": [], "types": [{"name": "LOC"}, {"name": "LOC"}]}, "types.1.name"),
        ({"documents": [], "types": [{"name": "X", "description": "x " * 5000}]}, "types.0"),
    ],
)
def test_422_names_the_field(client: TestClient, body: dict[str, Any], field: str) -> None:
    reply = client.post("/v1/recognize", json=body)
    assert reply.status_code == 422, reply.text
    assert field in [problem["field"] for problem in reply.json()["detail"]]
    assert all(problem["message"] for problem in reply.json()["detail"])


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        (b"", "body", "no JSON object"),
        (b"[1]", "body", "no JSON object"),
        (b"null", "body", "no JSON object"),
        (b"{", "body", "not JSON (Expecting property name enclosed in double quotes, at character 1)"),
        (b'{"documents": [{"text": "\xff"}]}', "body", "byte 0xff at 25 is not UTF-8"),
        (gzip.compress(b'{"documents": []}', mtime=0), "body", "compressed"),
        (b'{"documents": ' + b"[" * 40_000, "body", "nested too deeply"),
        (b'{"documents": [], "shift": 1' + b"0" * 5000 + b"}", "body", "not JSON that can be read"),
        (b'{"documents": [], "\\ud800": 1}', "body", "half a surrogate pair"),
        (b'{"documents": [{"text": "a", "\\ud800": 1}]}', "documents.0", "half a surrogate pair"),
        (b'{"documents": [], "types": ["LOC"]}', "types.0", "no JSON object"),
        (b'{"documents": ["A text."]}', "documents.0", "no JSON object"),
        (b'{"documents": [{"text": "\\ud800"}]}', "documents.0.text", "half a surrogate pair"),
        (b'{"documents": [], "overlap": "\\ud800"}', "overlap", "half a surrogate pair"),
    ],
)
def test_what_is_no_request_is_refused(client: TestClient, content: bytes, field: str, message: str) -> None:
    reply = client.post("/v1/recognize", content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code == 422
    (problem,) = reply.json()["detail"]
    assert problem["field"] == field
    assert message in problem["message"]
    assert problem["hint"] or "." in field


@pytest.mark.parametrize(
    ("method", "path", "status", "hint"),
    [
        ("POST", "/v1/recognise", 404, "/docs shows the paths"),
        ("GET", "/v1/recognize", 405, "send POST"),
        ("POST", "/v1/models", 405, "send GET"),
    ],
)
def test_a_wrong_path_or_method_says_what_to_send(
    client: TestClient, method: str, path: str, status: int, hint: str
) -> None:
    reply = client.request(method, path)
    assert reply.status_code == status
    assert reply.json()["detail"][0]["hint"] == hint


def test_a_body_that_is_not_called_json_says_what_to_send(client: TestClient) -> None:
    types = (None, "application/x-www-form-urlencoded", "text/json", "application/x-ndjson")
    for headers in ({} if name is None else {"Content-Type": name} for name in types):
        reply = client.post("/v1/recognize", content=b'{"documents": []}', headers=headers)
        assert reply.status_code == 422
        assert "Content-Type: application/json" in reply.json()["detail"][0]["hint"]
    wrong = client.post("/v1/recognize", content=b"[]", headers={"Content-Type": "Application/JSON; a=b"})
    assert wrong.json()["detail"][0]["hint"] == "send a JSON object as /docs shows it"


def test_a_threshold_that_is_no_number_is_refused(client: TestClient) -> None:
    content = b'{"documents": [], "shift": NaN}'
    reply = client.post("/v1/recognize", content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code == 422
    assert reply.json()["detail"][0]["field"] == "shift"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"documents": [{"text": "a"}] * 21}, "documents"),
        ({"documents": [{"text": "a" * 15_000}, {"text": "b" * 5_001}]}, "documents.1.text"),
        ({"documents": [], "types": [{"name": str(i), "description": "d"} for i in range(5)]}, "types"),
        (
            {
                "documents": [],
                "types": [{"name": "x", "description": "d", "descriptions": ["a", "b", "c", "d"]}],
            },
            "types",
        ),
        (
            {"documents": [], "types": [{"name": "x", "description": "d", "prototypes": ["[[a]]"] * 4}]},
            "types",
        ),
        ({"documents": [], "types": [{"name": "x"}, {"name": "y", "description": "d" * 20_000}]}, "types.1"),
        ({"documents": [{"text": "a" * 10_000}], "types": [{"name": "x" * 10_001}]}, "documents.0.text"),
        ({"documents": [{"text": "a" * 100_000}]}, "body"),
        ({"documents": [{"text": TEXTS[0]}] * 20, "shift": -1000, "overlap": "nested"}, "documents"),
    ],
)
def test_413_over_the_limits(client: TestClient, body: dict[str, Any], field: str) -> None:
    reply = client.post("/v1/recognize", json=body)
    assert reply.status_code == 413, reply.text
    assert reply.json()["detail"][0]["field"] == field


def test_much_that_is_found_is_in_the_reply(folder: Path) -> None:
    body = {"documents": [{"text": TEXTS[0]}] * 40, "shift": -1000, "overlap": "nested"}
    reply = client_of(ModelSettings(checkpoint=str(folder)), {}).post("/v1/recognize", json=body).json()
    own = [len(document["mentions"]) for document in reply["documents"]]
    assert (len(set(own)), sum(own) > 1000) == (1, True)


def test_413_also_where_the_length_is_not_announced(client: TestClient) -> None:
    def body() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 10_000

    reply = client.post("/v1/recognize", content=body(), headers={"Content-Type": "application/json"})
    assert reply.status_code == 413


def test_a_key_is_asked_for_where_some_are_set(folder: Path) -> None:
    client = serving(folder, ("first", "zweiter-schlüssel"))
    body = {"documents": [{"text": TEXTS[0]}]}
    assert client.post("/v1/recognize", json=body).status_code == 401
    assert client.get("/v1/models").headers["WWW-Authenticate"] == "Bearer"
    for wrong in ("Bearer", "Bearer ", "Bearer firs", "Bearer first2", "Basic first", "first"):
        assert client.get("/v1/models", headers={"Authorization": wrong}).status_code == 401
    # Before anything of the body is looked at.
    assert client.post("/v1/recognize", content=b"{" * 200_000).status_code == 401
    for right in (b"Bearer first", "bearer zweiter-schlüssel".encode()):
        reply = client.post("/v1/recognize", json=body, headers={b"Authorization": right})
        assert reply.status_code == 200
    for open_to_all in ("/", "/healthz", "/readyz", "/docs", "/openapi.json"):
        assert client.get(open_to_all).status_code == 200


def test_a_path_prefix_does_not_open_the_gate(folder: Path) -> None:
    from rayner.serving.gate import KeyGate

    seen: list[int] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(1)

    async def ask() -> list[int]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": "/prefix/v1/models", "root_path": "/prefix", "headers": []}
        await KeyGate(inner, ["key"])(scope, lambda: None, send)  # type: ignore[arg-type]
        return [m["status"] for m in sent if "status" in m]

    assert asyncio.run(ask()) == [401]
    assert not seen


def test_the_interface_is_documented(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    recognize = schema["paths"]["/v1/recognize"]["post"]
    assert recognize["responses"].keys() == {"200", "413", "422", "503"}
    types = schema["components"]["schemas"]["RecognizeRequest"]["properties"]["types"]
    assert types["anyOf"][0]["minItems"] == 1
    assert client.get("/docs").status_code == 200


@pytest.mark.parametrize("prefix", ["/", "/v", "/v1/rec"])
def test_a_prefix_that_is_a_part_of_a_name_does_not_open_the_gate(prefix: str) -> None:
    app = create_app(Service(ApplicationSettings(), device="cpu"), ("key",))
    client = TestClient(app, root_path=prefix, raise_server_exceptions=False)
    assert client.post("/v1/recognize", json={"documents": []}).status_code == 401
    given = client.post("/v1/recognize", json={"documents": []}, headers={"Authorization": "Bearer key"})
    assert given.status_code == 503


def test_a_key_is_documented_only_where_some_are_set(client: TestClient, folder: Path) -> None:
    without, given = client.get("/openapi.json").json(), serving(folder, ("key",)).get("/openapi.json").json()
    for schema, needed in ((without, False), (given, True)):
        asked = [
            one for path, ways in schema["paths"].items() if path.startswith("/v1/") for one in ways.values()
        ]
        assert len(asked) == 5
        assert {("security" in one, "401" in one["responses"]) for one in asked} == {(needed, needed)}
        assert ("securitySchemes" in schema["components"]) == needed
        assert "security" not in schema["paths"]["/healthz"]["get"]


def test_health_and_readiness_differ() -> None:
    settings = ApplicationSettings.model_validate({"replicas": {"retry_after": 0}})
    client = TestClient(create_app(Service(settings, device="cpu")), raise_server_exceptions=False)
    assert client.get("/healthz").status_code == 200
    reply = client.get("/readyz")
    assert reply.status_code == 503
    assert reply.headers["Retry-After"] == "1"
    reply = client.post("/v1/recognize", json={"documents": []})
    assert reply.status_code == 503


def test_a_model_at_one_piece_of_work_for_too_long_is_not_ready(folder: Path) -> None:
    service = Service(ApplicationSettings(), device="cpu")
    asyncio.run(service.load(ModelSettings(checkpoint=str(folder))))
    client = TestClient(create_app(service), raise_server_exceptions=False)
    assert client.get("/readyz").status_code == 200
    service._reader._batcher._busy_since = time.monotonic() - 1000
    reply = client.get("/readyz")
    assert reply.status_code == 503
    assert "at one piece of work for 1" in reply.text


def test_head_is_answered_as_get_without_a_body(folder: Path) -> None:
    client = serving(folder, ("key",))
    key = {"Authorization": "Bearer key"}
    paths = ("/", "/page/app.js", "/healthz", "/readyz", "/v1/models", "/v1/recognize", "/nowhere", "/docs")
    for path in paths:
        for headers in ({}, key):
            got, head = client.get(path, headers=headers), client.head(path, headers=headers)
            assert head.status_code == got.status_code, path
            assert (dict(head.headers), head.content) == (dict(got.headers), b"")


def test_a_tagger_serves_too_and_says_what_it_cannot(tmp_path: Path) -> None:
    client = serving(tagger_folder(tmp_path / "best"))
    expected = rows(rayner.load(tmp_path / "best", "cpu").predict(TEXTS))
    assert replied(recognize(client, TEXTS)) == expected
    body = {"documents": [{"text": "x"}], "shift": 1.0}
    reply = client.post("/v1/recognize", json=body)
    assert reply.status_code == 422
    assert "tagger" in reply.text


def test_replies_are_plain_json(client: TestClient) -> None:
    reply = client.post("/v1/recognize", json={"documents": [{"text": "Ada \x00 in Zürich"}]})
    assert reply.headers["Content-Type"] == "application/json"
    json.loads(reply.content)
