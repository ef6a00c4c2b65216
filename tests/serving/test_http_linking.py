"""Standardizing and annotating over HTTP, without Ray."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient

from rayner.config import TypeSettings
from rayner.data.schema import Entity
from rayner.errors import CheckpointError
from rayner.retrieval.index_folder import remove_entities, version_of_index
from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.knowledge import default_bases
from rayner.serving.models import load_models
from rayner.serving.service import Service
from rayner.tasks.checkpoint import version_of
from rayner.tasks.stages import load_pipeline
from tests.serving.checkpoints import PEOPLE, PLACES, TEXTS, recognizer_folder, standardizer_folder
from tests.serving.running import client_of

MENTIONS = ["Marie Curie", "curie", "Ada Lovelace ", "Zanzibar", "", "!!!", "x" * 600, "Marie Curie"]
MENTIONS += ["Ada Lovelace and Marie Curie"]


class Folders:
    """A recognizer and two knowledge bases of one standardizer each."""

    def __init__(self, folder: Path) -> None:
        self.recognizer = recognizer_folder(folder / "recognizer")
        self.people, self.people_index = standardizer_folder(folder / "people", PEOPLE)
        self.places, self.places_index = standardizer_folder(folder / "places", PLACES, seed=2)

    def settings(self, **changes: Any) -> ModelSettings:
        bases = {
            "people": {"index": self.people_index, "standardizer": self.people, "types": ["PER"]},
            "places": {"index": self.places_index, "standardizer": self.places, "types": ["LOC"]},
        }
        plain = {name: {**base, "index": str(base["index"])} for name, base in bases.items()}
        for base in plain.values():
            base["standardizer"] = str(base["standardizer"])
        values = {"checkpoint": str(self.recognizer), "knowledge_bases": plain, **changes}
        return ModelSettings.model_validate(values)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="module")
def client(folders: Folders) -> Iterator[TestClient]:
    with client_of(folders.settings(), {"mentions": 50}) as client:
        yield client


def ask(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    reply = client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def close(row: Any) -> Any:
    """The same with scores that may be off by what padding does to them."""
    if isinstance(row, dict):
        return {key: close(value) for key, value in row.items()}
    if isinstance(row, list):
        return [close(value) for value in row]
    return pytest.approx(row, abs=1e-4) if isinstance(row, float) else row


@pytest.mark.parametrize(
    ("top_k", "point", "share"),
    [
        (5, None, None),
        (1, "high_precision", 0.3),
        (2, "high_recall", None),
        (3, "never", 1),
        (99, "accuracy", 0.5),
        (5, None, 0.0),
    ],
)
def test_answers_are_those_of_the_standardizer(
    client: TestClient, folders: Folders, top_k: int, point: Any, share: float | None
) -> None:
    asked = {"index": folders.people_index, "top_k": top_k, "operating_point": point, "nil_share": share}
    loaded = load_pipeline(folders.people, "cpu", **asked)
    expected = [answer.to_row() for answer in loaded.predict(MENTIONS)]
    body: dict[str, Any] = {"mentions": MENTIONS, "top_k": top_k, "knowledge_base": "people"}
    body |= {name: asked[name] for name in ("operating_point", "nil_share") if asked[name] is not None}
    reply = ask(client, "/v1/standardize", **body)
    assert reply["answers"] == close(expected)
    assert reply["answers"][0]["candidates"][0]["entity_id"] == "curie"
    assert {answer["reason"] for answer in reply["answers"][4:7]} >= {"empty", "only punctuation"}
    if point == "never":
        both = reply["answers"][-1]
        assert (both["entity_id"], both["name"]) == ("ada|curie", "Ada Lovelace | Marie Curie")


def test_a_reply_names_index_and_standardizer(client: TestClient, folders: Folders) -> None:
    reply = ask(client, "/v1/standardize", mentions=["Seine"], knowledge_base="places")
    assert reply["versions"] == {
        **dict.fromkeys(("contexts", "recognizer", "typer", "entities")),
        "knowledge_bases": {
            "places": {
                "index": version_of_index(folders.places_index),
                "standardizer": version_of(folders.places),
            }
        },
    }
    described = client.get("/v1/models").json()["knowledge_bases"]
    assert described["people"]["entities"] == len(PEOPLE)
    assert described["people"]["operating_points"]
    assert described["places"]["types"] == ["LOC"]


def test_annotate_links_as_a_pipeline_does(client: TestClient, folders: Folders, tmp_path: Path) -> None:
    stage = {"index": folders.people_index, "types": ["PER"], "top_k": 3, "operating_point": "high_recall"}
    stages = [{"checkpoint": folders.recognizer}, {"checkpoint": folders.people, **stage}]
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps({"stages": stages}, default=str))
    linker = load_pipeline(path, "cpu")
    expected = [
        [
            (
                m.start,
                m.end,
                m.type,
                m.entity_id,
                close([m.probability]),
                [(c.entity_id, pytest.approx(c.score, abs=1e-4)) for c in m.candidates],
            )
            for m in document.mentions
        ]
        for document in linker.predict(TEXTS)
    ]
    reply = ask(
        client,
        "/v1/annotate",
        documents=[{"text": text} for text in TEXTS],
        knowledge_base="people",
        top_k=3,
        operating_point="high_recall",
    )
    assert [
        [
            (
                m["start"],
                m["end"],
                m["type"],
                m["entity_id"],
                [m["probability"]],
                [(c["entity_id"], c["score"]) for c in m["candidates"]],
            )
            for m in document["mentions"]
        ]
        for document in reply["documents"]
    ] == expected
    assert any(m[3] for document in expected for m in document)
    assert any(m.probability for d in linker.predict(TEXTS) for m in d.mentions)
    assert set(reply["versions"]["knowledge_bases"]) == {"people"}
    assert reply["versions"]["recognizer"] == version_of(folders.recognizer)


def test_an_entity_has_the_name_of_the_knowledge_base_that_linked_last(
    folders: Folders, tmp_path: Path
) -> None:
    others = [Entity(e.entity_id, f"{e.name} (other)", (e.name,)) for e in PEOPLE]
    checkpoint, index = standardizer_folder(tmp_path / "others", others)
    both = {
        "people": {"index": str(folders.people_index), "standardizer": str(folders.people), "types": ["PER"]},
        "others": {"index": str(index), "standardizer": str(checkpoint), "types": ["PER", "LOC"]},
    }
    client = client_of(folders.settings(knowledge_bases=both))
    assert client.get("/v1/models").json()["linked"] == ["people", "others"]
    reply = ask(client, "/v1/annotate", documents=[{"text": TEXTS[0]}])
    found = [c["name"] for m in reply["documents"][0]["mentions"] for c in m["candidates"]]
    assert found
    assert set(found) == {other.name for other in others}


def test_annotate_says_which_types_are_new(client: TestClient, folders: Folders) -> None:
    new = {"name": "TOWN", "description": "towns and villages"}
    reply = ask(client, "/v1/annotate", documents=[{"text": TEXTS[0]}], types=[{"name": "LOC"}, new])
    assert reply["new_types"] == {"TOWN": "dynamic"}
    assert ask(client, "/v1/annotate", documents=[{"text": TEXTS[0]}])["new_types"] == {}
    alone = load_pipeline(folders.recognizer, "cpu", types=(TypeSettings.model_validate(new),))
    assert alone.new_types == {"TOWN": "dynamic"}


def test_each_type_goes_to_its_own_knowledge_base(client: TestClient) -> None:
    reply = ask(client, "/v1/annotate", documents=[{"text": text} for text in TEXTS], operating_point="never")
    people, places = {e.entity_id for e in PEOPLE}, {e.entity_id for e in PLACES}
    of_type = {"PER": people, "LOC": places, "ORG": {None}}
    names = {entity.entity_id: entity.name for entity in (*PEOPLE, *PLACES)}
    mentions = [m for document in reply["documents"] for m in document["mentions"]]
    assert {m["type"] for m in mentions} == set(of_type)
    for mention in mentions:
        assert mention["entity_id"] in of_type[mention["type"]]
        assert mention["name"] == names.get(mention["entity_id"])
        assert all(found["name"] == names[found["entity_id"]] for found in mention["candidates"])
    assert set(reply["versions"]["knowledge_bases"]) == {"people", "places"}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("standardize", {"mentions": ["a"]}, "knowledge_base"),
        ("standardize", {"mentions": ["a"], "knowledge_base": "plants"}, "knowledge_base"),
        ("standardize", {"mentions": "a", "knowledge_base": "people"}, "mentions"),
        ("standardize", {"mentions": [1], "knowledge_base": "people"}, "mentions.0"),
        ("standardize", {"mentions": ["a"], "knowledge_base": "people", "top_k": 0}, "top_k"),
        ("standardize", {"mentions": ["a"], "knowledge_base": "people", "top_k": True}, "top_k"),
        ("standardize", {"mentions": ["a"], "knowledge_base": "people", "top_k": "3"}, "top_k"),
        ("annotate", {"documents": [], "top_k": 3.5}, "top_k"),
        ("annotate", {"documents": [], "shift": True}, "shift"),
        (
            "standardize",
            {"mentions": [], "knowledge_base": "x", "operating_point": "b"},
            "operating_point",
        ),
        ("standardize", {"mentions": ["a"], "knowledge_base": "people", "nil_share": 1.5}, "nil_share"),
        ("standardize", {"mentions": ["a"], "knowledge_base": "people", "nil_share": True}, "nil_share"),
        ("annotate", {"documents": [], "nil_share": -0.1}, "nil_share"),
        ("annotate", {"documents": [], "knowledge_base": "plants"}, "knowledge_base"),
        ("annotate", {"documents": [], "types": [{"name": "LOC"}, {"name": "TOWN"}]}, "types.1"),
    ],
)
def test_422_names_the_field(client: TestClient, path: str, body: dict[str, Any], field: str) -> None:
    reply = client.post(f"/v1/{path}", json=body)
    assert reply.status_code == 422, reply.text
    assert field in [problem["field"] for problem in reply.json()["detail"]]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1e-9"])
def test_422_for_what_is_no_share(client: TestClient, number: str) -> None:
    body = f'{{"mentions": ["a"], "knowledge_base": "people", "nil_share": {number}}}'
    reply = client.post("/v1/standardize", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 422, reply.text
    assert "nil_share" in reply.text or "NaN" in reply.text


def test_413_over_the_limit_of_mentions(client: TestClient) -> None:
    reply = client.post("/v1/standardize", json={"mentions": ["a"] * 51, "knowledge_base": "people"})
    assert reply.status_code == 413
    assert reply.json()["detail"][0]["field"] == "mentions"


def test_without_knowledge_bases_or_recognizer_the_reply_says_so(folders: Folders) -> None:
    only = folders.settings().knowledge_bases["people"]
    client = client_of(ModelSettings(knowledge_bases={"people": only}))
    assert ask(client, "/v1/standardize", mentions=["Curie"])["answers"][0]["name"]
    for path in ("recognize", "annotate"):
        for model in ({}, {"model": "x"}):
            reply = client.post(f"/v1/{path}", json={"documents": []} | model)
            assert reply.status_code == 422
            (problem,) = reply.json()["detail"]
            assert problem["message"] == "this service has no recognizer"
            assert problem["hint"] == "ask /v1/standardize"
    client = client_of(ModelSettings(checkpoint=str(folders.recognizer)))
    reply = client.post("/v1/standardize", json={"mentions": ["a"]})
    assert reply.status_code == 422
    (problem,) = reply.json()["detail"]
    assert problem["message"] == "this service has none"
    assert problem["hint"].startswith("serve a standardizer's checkpoint")


def test_a_pipeline_file_is_taken_for_its_standardizer(folders: Folders, tmp_path: Path) -> None:
    base = folders.settings().knowledge_bases["people"]
    linking = {"checkpoint": str(folders.people), "index": "nowhere"}
    stages = [{"checkpoint": str(folders.recognizer)}, linking]
    (tmp_path / "pipeline.yaml").write_text(json.dumps({"stages": stages}))
    named = base.model_copy(update={"standardizer": str(tmp_path / "pipeline.yaml")})
    replies = [
        ask(client_of(ModelSettings(knowledge_bases={"people": one})), "/v1/standardize", mentions=["Curie"])
        for one in (base, named)
    ]
    assert replies[0] == replies[1]
    recognizer = base.model_copy(update={"standardizer": str(folders.recognizer)})
    with pytest.raises(CheckpointError, match="is no checkpoint of a standardizer"):
        load_models(ModelSettings(knowledge_bases={"people": recognizer}), 1)


def test_an_index_changes_while_the_rest_stays(tmp_path: Path) -> None:
    people, index = standardizer_folder(tmp_path / "kb", (*PEOPLE, Entity("noether", "Emmy Noether")))
    settings = ModelSettings.model_validate(
        {"knowledge_bases": {"people": {"index": str(index), "standardizer": str(people)}}}
    )
    service = Service(ApplicationSettings(), device="cpu")
    asyncio.run(service.load(settings))
    before = service.models
    assert remove_entities(index, ["noether"])
    asyncio.run(service.load(settings.model_copy(update={"revision": "2"})))
    after = service.models
    assert before.knowledge_bases["people"].loaded is after.knowledge_bases["people"].loaded
    old, new = (models.knowledge_bases["people"] for models in (before, after))
    assert (old.about.entities, new.about.entities) == (3, 2)
    assert old.versions.index != new.versions.index
    assert new.versions.index == version_of_index(index)
    # What is the same as before is not loaded again.
    asyncio.run(service.load(settings.model_copy(update={"revision": "3"})))
    assert service.models.knowledge_bases["people"] is new


def test_a_change_that_fails_leaves_what_answers(folders: Folders, tmp_path: Path) -> None:
    service = Service(ApplicationSettings(), device="cpu")
    asyncio.run(service.load(folders.settings()))
    before = service.models
    asyncio.run(service.load(folders.settings(checkpoint=str(tmp_path))))
    assert service.models is before
    assert "checkpoint" in (service.describe().failed_change or "")
    asyncio.run(service.load(folders.settings(revision="2")))
    assert service.describe().failed_change is None
    assert service.models.pipelines == before.pipelines


def test_another_precision_reaches_the_knowledge_bases(folders: Folders) -> None:
    service = Service(ApplicationSettings(), device="cpu")
    for precision, named in (("float32", ""), ("bfloat16", "+bfloat16"), ("float32", "")):
        asyncio.run(service.load(folders.settings(precision=precision)))
        assert service.describe().failed_change is None
        bases = service.models.versions(bases=("people", "places")).knowledge_bases
        expected = {"people": version_of(folders.people), "places": version_of(folders.places)}
        assert {name: base.standardizer for name, base in bases.items()} == {
            name: version + named for name, version in expected.items()
        }


def test_of_several_knowledge_bases_one_must_be_named_unless_each_has_types() -> None:
    people, places, all_ = (cast(Any, SimpleNamespace(types=types)) for types in (("PER",), ("LOC",), ()))
    assert default_bases({"people": people, "places": places}) == ("people", "places")
    assert default_bases({"people": people, "all": all_}) == ()
    assert default_bases({"all": all_}) == ("all",)
