"""Several models in one service, each under its name, without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from fastapi.testclient import TestClient

import rayner
from rayner.data.writers import write_jsonl
from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.http import create_app
from rayner.serving.metrics import Meter, RayMeter
from rayner.serving.service import Service
from rayner.tasks.checkpoint import save_checkpoint, version_of
from tests.serving.checkpoints import (
    PEOPLE,
    PLACES,
    TEXTS,
    recognizer_folder,
    standardizer_folder,
    typer_folder,
)
from tests.serving.running import client_of
from tests.tasks.gaussian.small_gaussian import SUPPORT, gaussian
from tests.tasks.small import built, corpus

BODY: dict[str, Any] = {"documents": [{"text": text} for text in TEXTS]}
SPAN = {"documents": [{"text": "Ada slept.", "mentions": [{"start": 0, "end": 3}]}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recognizers, a typer, two knowledge bases, and pipelines of a recognizer and people."""
    folder = tmp_path_factory.mktemp("models")
    recognizer_folder(folder / "first", 60)
    recognizer_folder(folder / "second", 10)
    typer_folder(folder / "typer")
    standardizer_folder(folder / "people", PEOPLE)
    standardizer_folder(folder / "places", PLACES, seed=2)
    for name in ("first", "second"):
        link = {"checkpoint": "people/best", "index": "people/index", "types": ["PER"]}
        stages = [{"checkpoint": name}, link]
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"stages": stages}))
    return folder


def settings_of(folder: Path, **models: str) -> ModelSettings:
    """A checkpoint named `checkpoint`, and models by their names."""
    paths = {name: str(folder / path) for name, path in models.items()}
    return ModelSettings(checkpoint=paths.pop("checkpoint", None), models=paths)


def serving(settings: ModelSettings) -> Service:
    service = Service(ApplicationSettings(), device="cpu")
    asyncio.run(service.load(settings))
    return service


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with client_of(settings_of(folder, checkpoint="first", other="second", fine="typer")) as client:
        yield client


def ask(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    reply = client.post(path, json={**BODY, **body})
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize(("model", "path"), [(None, "first"), ("other", "second")])
def test_each_answers_as_predict_does(client: TestClient, folder: Path, model: Any, path: str) -> None:
    reply = ask(client, "/v1/recognize", model=model)
    expected = rayner.load(folder / path, "cpu").predict(TEXTS)
    assert [[(m["start"], m["end"], m["type"]) for m in d["mentions"]] for d in reply["documents"]] == [
        [(m.start, m.end, m.type) for m in document.mentions] for document in expected
    ]
    scores = [m["score"] for d in reply["documents"] for m in d["mentions"]]
    assert scores == pytest.approx([m.score for d in expected for m in d.mentions], abs=1e-4)
    assert reply["versions"]["recognizer"] == version_of(folder / path)


def test_a_named_typer_types_what_is_marked(client: TestClient, folder: Path) -> None:
    reply = client.post("/v1/type", json={**SPAN, "model": "fine"})
    assert reply.json()["versions"]["typer"] == version_of(folder / "typer")


def test_they_are_listed(client: TestClient, folder: Path) -> None:
    found = client.get("/v1/models").json()
    assert list(found["models"]) == ["other", "fine"]
    assert found["recognizer"]["version"] == version_of(folder / "first")
    assert found["models"]["other"]["recognizer"]["version"] == version_of(folder / "second")
    assert found["models"]["fine"]["recognizer"] is None
    assert [stage["stage"] for stage in found["models"]["fine"]["stages"]] == ["types"]


def test_learned_types_that_a_file_names_are_described(client: TestClient, folder: Path) -> None:
    stage = {"checkpoint": "first", "types": ["PER", {"name": "SHIP", "description": "vessels"}]}
    (folder / "named.yaml").write_text(yaml.safe_dump({"stages": [stage]}))
    with client_of(settings_of(folder, checkpoint="named.yaml")) as named:
        found = named.get("/v1/models").json()["recognizer"]["types"]
    learned = client.get("/v1/models").json()["recognizer"]["types"]
    person = next(one for one in learned if one["name"] == "PER")
    assert person["description"]
    assert found == [person, {"name": "SHIP", "description": "vessels"}]


def test_types_and_version_are_those_of_the_support(tmp_path: Path) -> None:
    task = gaussian()
    save_checkpoint(tmp_path / "best", task, built(task), {})
    stages = [{"checkpoint": "best", "support": "support.jsonl"}]
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    versions = set()
    for texts in (SUPPORT, SUPPORT[:1]):
        write_jsonl(corpus(texts), tmp_path / "support.jsonl")
        client = client_of(settings_of(tmp_path, checkpoint="pipeline.yaml"))
        described = client.get("/v1/models").json()
        assert [t["name"] for t in described["recognizer"]["types"]] == ["DISH", "VESSEL"]
        assert described["recognizer"]["version"] == described["stages"][0]["version"]
        versions.add(ask(client, "/v1/recognize")["versions"]["recognizer"])
    assert len(versions) == 2


@pytest.mark.parametrize(
    ("path", "body", "message", "hint"),
    [
        ("recognize", {"model": "ghost"}, "there is no 'ghost'", "one of other"),
        ("annotate", {"model": ""}, "there is no ''", "one of other"),
        ("recognize", {"model": "fine"}, "'fine' has no recognizer", "one of other or leave it out"),
        ("type", SPAN, "the service's checkpoint has no typer", "one of fine"),
        ("type", {**SPAN, "model": "other"}, "'other' has no typer", "one of fine"),
        ("recognize", {"model": 3}, "Input should be a valid string", ""),
    ],
)
def test_a_model_that_cannot_be_had_is_named(
    client: TestClient, path: str, body: Any, message: str, hint: str
) -> None:
    reply = client.post(f"/v1/{path}", json={**BODY, **body})
    assert reply.status_code == 422
    assert reply.json()["detail"] == [{"field": "model", "message": message, "hint": hint}]


def test_of_several_without_a_checkpoint_one_must_be_named(folder: Path) -> None:
    client = client_of(settings_of(folder, a="first", b="second", fine="typer"))
    for path, body, able in (("recognize", BODY, "a, b"), ("type", SPAN, "fine")):
        reply = client.post(f"/v1/{path}", json=body)
        assert reply.status_code == 422
        what = {"field": "model", "message": "must be named", "hint": f"one of {able}"}
        assert reply.json()["detail"] == [what]
    found = client.get("/v1/models").json()
    assert (found["recognizer"], found["stages"], found["linked"]) == (None, [], [])
    assert list(found["models"]) == ["a", "b", "fine"]


def test_the_only_one_needs_no_name(folder: Path) -> None:
    client = client_of(settings_of(folder, a="first"))
    assert ask(client, "/v1/recognize") == ask(client, "/v1/recognize", model="a")
    assert client.get("/v1/models").json()["recognizer"]["version"] == version_of(folder / "first")
    reply = client.post("/v1/type", json=SPAN).json()["detail"]
    assert (reply[0]["field"], reply[0]["message"]) == ("documents", "this service has no typer")
    alone = client_of(settings_of(folder, checkpoint="first"))
    (problem,) = alone.post("/v1/recognize", json={**BODY, "model": "a"}).json()["detail"]
    assert problem["hint"] == "leave it out: none has a name here"


def test_each_links_as_its_file_says(folder: Path) -> None:
    """An index that several files link to is one, and is linked to by nobody else unasked."""
    settings = settings_of(folder, checkpoint="first", a="first.yaml", b="second.yaml")
    places = {"index": str(folder / "places/index"), "standardizer": str(folder / "places/best")}
    with_places = ModelSettings.model_validate(
        {**settings.model_dump(), "knowledge_bases": {"places": places}}
    )
    service = serving(with_places)
    first, second = (service.models.named[name].pipeline.links for name in ("a", "b"))
    assert first == second
    client = TestClient(create_app(service))
    found = client.get("/v1/models").json()
    assert list(found["knowledge_bases"]) == ["places", "index"]
    assert (found["linked"], found["models"]["a"]["linked"]) == (["places"], ["index"])
    for model, linked in ((None, "places"), ("a", "index"), ("b", "index")):
        versions = ask(client, "/v1/annotate", model=model)["versions"]
        assert list(versions["knowledge_bases"]) == [linked]
        assert list(
            ask(client, "/v1/annotate", model=model, knowledge_base="index")["versions"]["knowledge_bases"]
        ) == ["index"]


def test_a_change_loads_what_is_new_and_fails_whole(folder: Path, tmp_path: Path) -> None:
    service = serving(settings_of(folder, checkpoint="first", other="second"))
    before = service.models
    asyncio.run(service.load(settings_of(folder, a="second", b="typer", c="first")))
    after = service.models
    assert service.describe().failed_change is None
    assert [after.named[name].pipeline for name in ("c", "a")] == before.pipelines
    assert set(after.flat_versions()) == {"recognizer a", "typer b", "recognizer c"}
    asyncio.run(service.load(settings_of(folder, checkpoint="second", b=str(tmp_path / "nowhere"))))
    assert service.models is after
    assert "nowhere" in (service.describe().failed_change or "")


def test_what_is_counted_tells_models_apart(folder: Path) -> None:
    class Counted(Meter):
        counts: ClassVar[list[tuple[str, str, int, int, int]]] = []

        def answered(
            self, endpoint: str, model: str, items: int, windows: int, mentions: int, seconds: float
        ) -> None:
            self.counts.append((endpoint, model, items, windows, mentions))

    service = Service(ApplicationSettings(), Counted(), device="cpu")
    asyncio.run(service.load(settings_of(folder, checkpoint="first.yaml", other="second", fine="typer")))
    with TestClient(create_app(service)) as client:
        long = {"documents": [{"text": " ".join(TEXTS * 12)}, *BODY["documents"]]}
        documents = [
            ask(client, "/v1/recognize", **long)["documents"],
            ask(client, "/v1/annotate", model="other")["documents"],
            ask(client, "/v1/type", model="fine", **SPAN)["documents"],
        ]
        answers = client.post("/v1/standardize", json={"mentions": ["Ada Lovelace", ""]}).json()["answers"]
        asyncio.run(service.load(settings_of(folder, only="second")))
        documents.append(ask(client, "/v1/recognize")["documents"])
    counts = [
        (len(one), sum(d["windows"] for d in one), sum(len(d["mentions"]) for d in one)) for one in documents
    ]
    assert len({*counts[0]}) == 3
    linked = sum(answer["entity_id"] is not None for answer in answers)
    assert Counted.counts == [
        ("recognize", "", *counts[0]),
        ("annotate", "other", *counts[1]),
        ("type", "fine", *counts[2]),
        ("standardize", "", 2, 0, linked),
        ("recognize", "only", *counts[3]),
    ]


def test_each_look_at_a_replica_says_again_which_models_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray drops a gauge that was not set for some seconds."""
    gauges: dict[str, dict[str, float]] = {}

    class Kept:
        def __init__(self, name: str, *_: Any) -> None:
            self._values = gauges.setdefault(name, {})

        def set(self, value: float, tags: dict[str, str] | None = None) -> None:
            self._values[(tags or {}).get("version", "")] = value

        inc = observe = lambda *_: None

    for name in ("Counter", "Gauge", "Histogram"):
        monkeypatch.setattr(f"ray.serve.metrics.{name}", Kept)
    service = Service(ApplicationSettings(), RayMeter(), "cpu")
    asyncio.run(service.load(settings_of(folder, checkpoint="first")))
    asyncio.run(service.load(settings_of(folder, checkpoint="second")))
    models = gauges["rayner_model"]
    assert models == {version_of(folder / "first"): 0, version_of(folder / "second"): 1}
    models.clear()
    service.check()
    assert models == {version_of(folder / "second"): 1}
