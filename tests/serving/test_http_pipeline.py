"""A pipeline of contexts, mentions, types and entities over HTTP, without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

import rayner
from rayner.data.schema import Document, context_to_row
from rayner.errors import CheckpointError
from rayner.retrieval.index_folder import remove_entities, version_of_index
from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.served_pipelines import ServedPipeline
from rayner.serving.service import Service
from rayner.tasks.checkpoint import version_of
from rayner.tasks.predict import predict_and_count
from rayner.tasks.stages import Pipeline, read_pipeline
from tests.serving.checkpoints import PEOPLE, TEXTS, pipeline_folder, standardizer_folder
from tests.serving.running import client_of

NAMES: dict[str | None, str] = {entity.entity_id: entity.name for entity in PEOPLE}
BOOKS = [" ".join(TEXTS), TEXTS[0], "", "Nobody slept. Ada Lovelace came. Nobody slept."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline's checkpoints, index and file."""
    return pipeline_folder(tmp_path_factory.mktemp("pipeline"), PEOPLE)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with client_of(ModelSettings(checkpoint=str(folder / "pipeline.yaml"))) as client:
        yield client


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Pipeline:
    return rayner.load(folder / "pipeline.yaml", "cpu")


def ask(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    reply = client.post(path, json={"documents": [{"text": text} for text in BOOKS], **body})
    assert reply.status_code == 200, reply.text
    return reply.json()


def near(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, abs=1e-4)


def replied(documents: list[Document], linked: bool) -> list[list[dict[str, Any]]]:
    """The mentions of predicted documents, as a reply should have them."""
    rows = []
    for document in documents:
        rows.append([])
        for mention in document.mentions:
            row: dict[str, Any] = {
                "start": mention.start,
                "end": mention.end,
                "text": document.text[mention.start : mention.end],
                "type": mention.type,
                "score": near(mention.score),
                "margin": near(mention.margin),
                "uncertainty": mention.uncertainty,
                "types": [{"name": name, "score": near(score)} for name, score in mention.types],
            }
            if linked:
                row |= {"entity_id": mention.entity_id, "probability": near(mention.probability)}
                row["name"] = NAMES.get(mention.entity_id)
                row["candidates"] = [
                    {**asdict(one), "name": NAMES[one.entity_id], "score": near(one.score)}
                    for one in mention.candidates
                ]
            rows[-1].append(row)
    return rows


def test_annotate_has_the_answers_of_predict(client: TestClient, loaded: Pipeline) -> None:
    expected = loaded.predict(BOOKS)
    reply = ask(client, "/v1/annotate")
    assert [d["mentions"] for d in reply["documents"]] == replied(expected, linked=True)
    mentions = [m for d in expected for m in d.mentions]
    assert any(m.types for m in mentions)
    assert any(m.entity_id for m in mentions)


def test_recognize_has_them_without_entities_and_on_request_contexts(
    client: TestClient, loaded: Pipeline
) -> None:
    expected = loaded.predict(BOOKS)
    reply = ask(client, "/v1/recognize", contexts=True)
    assert [d["mentions"] for d in reply["documents"]] == replied(expected, linked=False)
    assert any(d.sentence_contexts and any(d.sentence_contexts) for d in expected)
    for document, found in zip(reply["documents"], expected, strict=True):
        assert [(s["start"], s["end"]) for s in document["sentences"]] == list(found.sentences or ())
        assert [s["contexts"] for s in document["sentences"]] == [
            [{**context_to_row(context), "score": near(context.score)} for context in contexts]
            for contexts in found.sentence_contexts or ()
        ]
        read = [context for contexts in found.sentence_contexts or () for context in contexts]
        assert [found.text[context.start : context.end] for context in read] == [c.text for c in read]
    assert ask(client, "/v1/recognize")["documents"][0]["sentences"] is None


def test_a_request_asks_the_recognizer_for_something_else(client: TestClient, loaded: Pipeline) -> None:
    """What the file says of its stages holds where the request says nothing."""
    less = ask(client, "/v1/recognize", shift=1000.0)
    assert not any(d["mentions"] for d in less["documents"])
    assert ask(client, "/v1/recognize", shift=-0.5) == ask(client, "/v1/recognize")
    only = ask(client, "/v1/recognize", types=[{"name": "LOC"}])
    assert {m["type"] for d in only["documents"] for m in d["mentions"]} == {"LOC"}
    one = ask(client, "/v1/annotate", top_k=1)
    assert {len(m["candidates"]) for d in one["documents"] for m in d["mentions"] if m["type"] == "PER"} == {
        1
    }


def test_a_reply_names_all_that_made_it(client: TestClient, folder: Path) -> None:
    read: dict[str, str | None] = {name: version_of(folder / name) for name in ("recognizer", "typer")}
    read |= {"contexts": version_of(folder / "ranker"), "entities": None}
    base = {
        "index": version_of_index(folder / "people/index"),
        "standardizer": version_of(folder / "people/best"),
    }
    assert ask(client, "/v1/recognize")["versions"] == {**read, "knowledge_bases": {}}
    assert ask(client, "/v1/annotate")["versions"] == {**read, "knowledge_bases": {"index": base}}
    described = client.get("/v1/models").json()
    assert [s["stage"] for s in described["stages"]] == ["contexts", "mentions", "types", "entities"]
    assert described["knowledge_bases"]["index"]["types"] == ["PER"]


def test_its_knowledge_base_answers_alone(client: TestClient, folder: Path) -> None:
    reply = client.post("/v1/standardize", json={"mentions": ["Marie Curie", "curie"]}).json()
    options = {"index": folder / "people/index", "operating_point": "never"}
    expected = rayner.load(folder / "people/best", "cpu", **options).predict(["Marie Curie", "curie"])
    assert [a["entity_id"] for a in reply["answers"]] == [a.entity_id for a in expected]
    assert [a["score"] for a in reply["answers"]] == [near(a.score) for a in expected]


def test_a_named_knowledge_base_is_linked_to_in_the_place_of_the_files(folder: Path) -> None:
    people = {"index": str(folder / "people/index"), "standardizer": str(folder / "people/best")}
    models = {"checkpoint": str(folder / "pipeline.yaml"), "knowledge_bases": {"index": people}}
    client = client_of(ModelSettings.model_validate(models))
    assert set(client.get("/v1/models").json()["knowledge_bases"]) == {"index", "index-2"}
    own = ask(client, "/v1/annotate")
    assert set(own["versions"]["knowledge_bases"]) == {"index-2"}
    named = ask(client, "/v1/annotate", knowledge_base="index", operating_point="never")
    assert set(named["versions"]["knowledge_bases"]) == {"index"}
    linked = {m["type"] for d in named["documents"] for m in d["mentions"] if m["entity_id"]}
    assert linked > {"PER"}, "which the file's stage links alone"


def test_of_a_changed_pipeline_only_what_changed_is_loaded(folder: Path, tmp_path: Path) -> None:
    standardizer_folder(tmp_path / "people", PEOPLE)
    people = {"checkpoint": str(tmp_path / "people/best"), "index": str(tmp_path / "people/index")}
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"stages": [{"checkpoint": str(folder / "recognizer")}, people]}))
    settings = ModelSettings(checkpoint=str(path))
    service = Service(ApplicationSettings(), device="cpu")
    asyncio.run(service.load(settings))
    before = service.models
    asyncio.run(service.load(replace_revision(settings, "2")))
    assert service.models.pipelines == before.pipelines
    assert remove_entities(tmp_path / "people/index", ["ada"])
    asyncio.run(service.load(replace_revision(settings, "3")))
    after = service.models
    assert service.describe().failed_change is None
    old, new = (models.knowledge_bases["index"] for models in (before, after))
    assert (old.about.entities, new.about.entities) == (2, 1)
    assert old.loaded is new.loaded
    (first,), (second,) = before.pipelines, after.pipelines
    assert first.stages[0].loaded is second.stages[0].loaded


def replace_revision(settings: ModelSettings, revision: str) -> ModelSettings:
    return settings.model_copy(update={"revision": revision})


def test_what_finds_no_mentions_alone_is_refused(folder: Path) -> None:
    for name in ("ranker", "people/best"):
        with pytest.raises(CheckpointError, match="name a recognizer, a tagger or a typer, or a pipeline"):
            client_of(ModelSettings(checkpoint=str(folder / name)))
    stages = yaml.safe_load((folder / "pipeline.yaml").read_text("utf-8"))["stages"]
    path = folder / "entities_alone.yaml"
    path.write_text(yaml.safe_dump({"stages": stages[-1:]}), "utf-8")
    with pytest.raises(CheckpointError, match=r"standardizer neither finds .* add a stage of a recognizer"):
        client_of(ModelSettings(checkpoint=str(path)))


def test_a_file_may_name_the_fine_types(folder: Path) -> None:
    stages = yaml.safe_load((folder / "pipeline.yaml").read_text("utf-8"))["stages"]
    stages[2]["types"] = [{"name": "LOC"}, {"name": "PER"}]
    path = folder / "two_types.yaml"
    path.write_text(yaml.safe_dump({"stages": stages}), "utf-8")
    assert read_pipeline(path).new_types == rayner.load(path, "cpu").new_types == {}
    with client_of(ModelSettings(checkpoint=str(path))) as client:
        reply = ask(client, "/v1/annotate")
    fine = {one["name"] for d in reply["documents"] for m in d["mentions"] for one in m["types"]}
    assert fine
    assert fine <= {"LOC", "PER"}
    assert reply["new_types"] == {}


def test_windows_are_those_of_the_first_stage(folder: Path) -> None:
    path = folder / "without_contexts.yaml"
    stages = yaml.safe_load((folder / "pipeline.yaml").read_text("utf-8"))["stages"]
    path.write_text(yaml.safe_dump({"stages": [stages[1], stages[3]]}), "utf-8")
    documents = [Document(str(index), text) for index, text in enumerate(BOOKS)]
    found = predict_and_count(rayner.load(path, "cpu").predictor, documents)
    with client_of(ModelSettings(checkpoint=str(path))) as client:
        windows = [document["windows"] for document in ask(client, "/v1/annotate")["documents"]]
    assert windows == [one.windows for one in found]
    assert windows[0] > 1


def test_stages_of_one_name_are_versioned_together() -> None:
    pipeline: Any = SimpleNamespace(stages=[SimpleNamespace(name="types", version=one) for one in "ab"])
    assert ServedPipeline.versions(pipeline) == {"types": "a+b"}
