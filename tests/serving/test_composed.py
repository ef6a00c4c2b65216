"""A pipeline whose stages are deployments of their own, without Ray."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

from rayner.errors import InputError, RecipeError
from rayner.serving import composition, remote_stages
from rayner.serving.application import build
from rayner.serving.application_settings import (
    ApplicationSettings,
    BatchingSettings,
    ModelSettings,
    ServeSettings,
)
from rayner.serving.composition import composed_models, composed_pipeline, stage_names
from rayner.serving.launch import Served, checked
from rayner.serving.metrics import Meter
from rayner.serving.remote_stages import Ask, OtherModels
from rayner.serving.room import check_room
from rayner.serving.service import Service
from rayner.serving.stage_service import StageService
from tests.serving.checkpoints import PEOPLE, PLACES, TEXTS, pipeline_folder, standardizer_folder
from tests.serving.running import client_of

NAMES = ["contexts", "mentions", "types", "entities", "entities-2"]
DOCUMENTS = [{"text": text} for text in (" ".join(TEXTS), TEXTS[0], "", "Nobody slept. Ada Lovelace came.")]
MARKED = [{"text": "Ada Lovelace came to Paris.", "mentions": [{"start": 0, "end": 12}]}]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ModelSettings:
    """Five stages, the last two of entities."""
    folder = pipeline_folder(tmp_path_factory.mktemp("pipeline"), PEOPLE)
    standardizer_folder(folder / "places", PLACES)
    path = folder / "pipeline.yaml"
    stages = yaml.safe_load(path.read_text("utf-8"))["stages"]
    stages.append({"checkpoint": "places/best", "index": "places/index", "types": ["LOC"], "top_k": 2})
    path.write_text(yaml.safe_dump({"stages": stages}), "utf-8")
    return ModelSettings(checkpoint=str(path))


def asking(service: StageService) -> Ask:
    """As Ray asks another process: what is passed is pickled."""

    async def ask(method: str, *arguments: Any) -> Any:
        given = pickle.loads(pickle.dumps(arguments))
        return pickle.loads(pickle.dumps(await getattr(service, method)(*given)))

    return ask


def stages_of(models: ModelSettings) -> dict[str, Ask]:
    """How stages are asked that were loaded anew: their batches belong to the event loop of one client."""
    stages = [StageService(models, place, BatchingSettings(), device="cpu") for place in range(5)]
    return dict(zip(stage_names(composed_pipeline(models)), map(asking, stages), strict=True))


@pytest.fixture(scope="module")
def asks(models: ModelSettings) -> dict[str, Ask]:
    return stages_of(models)


@pytest.fixture(scope="module")
def plain(models: ModelSettings) -> Iterator[TestClient]:
    with client_of(models) as client:
        yield client


@pytest.fixture(scope="module")
def composed(models: ModelSettings, asks: dict[str, Ask]) -> Iterator[TestClient]:
    with client_of(models, stages=asks) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("annotate", {"documents": DOCUMENTS}),
        ("annotate", {"documents": DOCUMENTS, "top_k": 1, "operating_point": "high_recall"}),
        ("annotate", {"documents": DOCUMENTS, "knowledge_base": "index-2", "shift": -2}),
        ("recognize", {"documents": DOCUMENTS, "contexts": True}),
        ("recognize", {"documents": DOCUMENTS, "types": [{"name": "ORG"}, {"name": "SHIP"}]}),
        ("recognize", {"documents": DOCUMENTS, "types": [{"name": "ORG"}, {"name": "ORG"}]}),
        ("type", {"documents": MARKED}),
        ("type", {"documents": MARKED, "types": [{"name": "PER"}]}),
        ("type", {"documents": MARKED, "types": [{"name": "PER"}, {"name": "SHIP"}]}),
        ("standardize", {"mentions": ["Curie", "Augusta"], "knowledge_base": "index"}),
        ("standardize", {"mentions": ["Curie"]}),
    ],
)
def test_composed_answers_are_the_plain_ones(
    plain: TestClient, composed: TestClient, path: str, body: dict[str, Any]
) -> None:
    """Errors too: those of a stage keep the place in the request."""
    expected, found = (client.post(f"/v1/{path}", json=body) for client in (plain, composed))
    assert (found.status_code, found.json()) == (expected.status_code, expected.json())


def test_it_describes_the_same_models(plain: TestClient, composed: TestClient) -> None:
    assert composed.get("/v1/models").json() == plain.get("/v1/models").json()
    assert len(composed.get("/v1/models").json()["stages"]) == 5


def test_a_request_is_answered_by_one_set_of_models(
    models: ModelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a stage has other models than the stage before it, the request begins again."""
    asks = stages_of(models)
    monkeypatch.setattr(remote_stages, "_PAUSE", 0.01)
    others: list[str] = []

    async def changing(method: str, *arguments: Any) -> Any:
        if others and method == "answers":
            return OtherModels(others.pop())
        return await asks["entities"](method, *arguments)

    with client_of(models, stages={**asks, "entities": changing}) as client:
        first = client.post("/v1/annotate", json={"documents": DOCUMENTS}).json()
        others += ["the models change"] * 3
        assert client.post("/v1/annotate", json={"documents": DOCUMENTS}).json() == first
        assert not others
        monkeypatch.setattr(remote_stages, "_PATIENCE", 0.0)
        others += ["the models change"] * 3
        reply = client.post("/v1/annotate", json={"documents": DOCUMENTS})
    assert (reply.status_code, reply.json()["detail"][0]["message"]) == (503, "the models change")
    assert reply.headers["Retry-After"] == "1"


def test_a_request_that_begins_again_is_counted_once(
    models: ModelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = stages_of(models)
    monkeypatch.setattr(remote_stages, "_PAUSE", 0.01)
    others = ["the models change"]

    async def changing(method: str, *arguments: Any) -> Any:
        if others and method == "new_types":
            return OtherModels(others.pop())
        return await asks["mentions"](method, *arguments)

    counted: list[str] = []
    monkeypatch.setattr(Meter, "answered", lambda _, endpoint, *others: counted.append(endpoint))
    with client_of(models, stages={**asks, "mentions": changing}) as client:
        body = {"documents": DOCUMENTS, "types": [{"name": "SHIP", "description": "vessels"}]}
        reply = client.post("/v1/recognize", json=body)
    assert reply.status_code == 200, reply.text
    assert not others
    assert counted == ["recognize"]


def test_models_come_in_when_every_stage_has_them(
    models: ModelSettings, asks: dict[str, Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition, "_PAUSE", 0.01)
    keys = ["old", "old"]

    async def late(method: str, *arguments: Any) -> Any:
        found = await asks["types"](method, *arguments)
        return found._replace(key=keys.pop()) if method == "about" and keys else found

    client_of(models, stages={**asks, "types": late})
    assert not keys
    monkeypatch.setattr(composition, "_PATIENCE", 0.0)
    keys += ["old"] * 3
    with pytest.raises(InputError, match=r"stages.types.*other models"):
        client_of(models, stages={**asks, "types": late})


def test_a_stage_that_fails_to_say_what_it_has_is_asked_again(
    models: ModelSettings, asks: dict[str, Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition, "_PAUSE", 0.01)
    pauses: list[float] = []
    failures = [RuntimeError("the actor died")] * 12

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def failing(method: str, *arguments: Any) -> Any:
        if failures and method == "about":
            raise failures.pop()
        return await asks["types"](method, *arguments)

    async def composed() -> None:
        # Only the module's own name: threads of Ray in this process sleep too.
        monkeypatch.setattr(composition, "asyncio", SimpleNamespace(sleep=sleep, to_thread=asyncio.to_thread))
        await composed_models(models, {**asks, "types": failing}, 1)

    asyncio.run(composed())
    assert not failures
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.02, 10.0)
    monkeypatch.setattr(composition, "_PATIENCE", 0.0)
    failures += [RuntimeError("the actor died")] * 3
    with pytest.raises(RuntimeError, match="the actor died"):
        asyncio.run(composed())


def test_a_change_that_no_stage_takes_in_keeps_back_no_other(
    models: ModelSettings, asks: dict[str, Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray Serve tells a replica of a change when the one before it is through."""
    monkeypatch.setattr(composition, "_PAUSE", 0.01)
    service = Service(ApplicationSettings(), device="cpu", stages=asks)
    path = Path(str(models.checkpoint))
    stages = yaml.safe_load(path.read_text("utf-8"))["stages"]
    stages[1]["shift"] = 1.5
    other = path.with_name("other.yaml")
    other.write_text(yaml.safe_dump({"stages": stages}), "utf-8")

    async def change() -> None:
        await service.load(models)
        first = service.models
        for settings in (models.model_copy(update={"checkpoint": str(other)}), models):
            await asyncio.wait_for(service.load(settings), 300)
            await asyncio.sleep(0.1)
        for _ in range(1000):
            if service.models is not first:
                break
            await asyncio.sleep(0.01)
        assert service.models is not first
        assert service.describe().failed_change is None
        await service.close()

    asyncio.run(change())


def test_another_key_is_answered_by_nothing(models: ModelSettings, asks: dict[str, Ask]) -> None:
    found = asyncio.run(asks["mentions"]("answers", "another", None, False, []))
    assert isinstance(found, OtherModels)
    with pytest.raises(RecipeError, match=r"the deployments are mentions, and .* `args`"):
        client_of(models, stages={"mentions": asks["mentions"]})


def test_who_holds_the_stage_counts_the_sub_words_of_types(models: ModelSettings) -> None:
    """Who answers HTTP has not its tokenizer."""
    stages = stages_of(models)
    stage = StageService(models, 1, BatchingSettings(), device="cpu", most_type_tokens=5)
    types = [{"name": "TOWN", "description": "a a a a"}]
    with client_of(models, stages={**stages, "mentions": asking(stage)}) as client:
        body = {"documents": DOCUMENTS, "types": types}
        assert client.post("/v1/recognize", json={"documents": DOCUMENTS}).status_code == 200
        assert client.post("/v1/recognize", json=body).status_code == 200
        types[0]["description"] += " a"
        reply = client.post("/v1/recognize", json=body)
        assert (reply.status_code, reply.json()["detail"][0]["field"]) == (413, "types")


def test_each_stage_has_replicas_of_its_own(models: ModelSettings) -> None:
    stages = {"mentions": {"gpus": 0.5, "memory": 2}, "entities-2": {"max": 3, "cpus": 2}}
    shared = {"replicas": {"cpus": 0, "drain": 9}, "limits": {"found": 7, "type_tokens": 8}}
    front: Any = build({"checkpoint": models.checkpoint, "stages": stages, **shared})._bound_deployment
    made = {name: stage._bound_deployment for name, stage in front.init_args[1].items()}
    assert [*made] == [stage.name for stage in made.values()] == NAMES
    assert front.ray_actor_options["num_cpus"] == 0
    assert made["mentions"].ray_actor_options == {"num_cpus": 1, "num_gpus": 0.5, "memory": 2 * 2**30}
    assert made["entities-2"]._deployment_config.autoscaling_config.max_replicas == 3
    assert made["types"]._deployment_config.graceful_shutdown_timeout_s == 9
    # Who waits for a stage was let in by the replica that asks it.
    assert made["types"]._deployment_config.max_queued_requests == -1
    limits = [(stage.init_args[0]["found"], stage.init_args[0]["type_tokens"]) for stage in made.values()]
    assert set(limits) == {(7, 8)}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stages": {"mention": {}}}, r"stages.mention: .*no such stage; .* contexts, mentions, types"),
        ({"stages": {"mentions": {"replicas": 2}}}, r"stages.mentions.replicas: unknown key"),
        ({"stages": {"mentions": {}}, "models": {"a": "b"}}, "one pipeline, and the file has `models`"),
        ({"stages": {"mentions": {}}, "precision": "auto"}, "precision"),
        ({"stages": {"mentions": {}}, "replicas": {"gpus": 1}}, r"replicas.gpus"),
        ({"stages": {"mentions": {}}, "checkpoint": "recognizer"}, "has one stage; leave `stages` out"),
        ({"stages": {"mentions": {}}, "checkpoint": None}, "needs `checkpoint` in `args`"),
    ],
)
def test_what_cannot_be_composed_is_told(models: ModelSettings, values: dict[str, Any], message: str) -> None:
    path = Path(str(models.checkpoint))
    given = {"checkpoint": "pipeline.yaml", **values}
    if given["checkpoint"] is None:
        del given["checkpoint"]
    else:
        given["checkpoint"] = str(path.parent / given["checkpoint"])
    with pytest.raises(RecipeError, match=message) as error:
        build(given)
    assert "\n" not in str(error.value)


def test_it_is_told_before_ray_starts(models: ModelSettings, tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(f"checkpoint: {models.checkpoint}\nstages: {{entities-3: {{}}}}")
    with pytest.raises(RecipeError, match=r"stages.entities-3: .*no such stage"):
        checked(path)


def test_replicas_have_memory_by_the_deployments_of_the_file(
    models: ModelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read again after a change, the file may name no stages, or a pipeline of others."""
    room = {"CPU": 64.0, "memory": 1e12}
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True, "Resources": room}])
    path = Path(str(models.checkpoint))
    fewer = path.with_name("fewer.yaml")
    stages = yaml.safe_load(path.read_text("utf-8"))["stages"]
    fewer.write_text(yaml.safe_dump({"stages": stages[1:3]}), "utf-8")
    served = Served()

    def placed(checkpoint: Path, stages: dict[str, Any]) -> ServeSettings:
        return served._placed(ServeSettings(checkpoint=str(checkpoint), stages=stages))

    whole = placed(path, {"mentions": {}})
    assert {*whole.stages} == {*NAMES}
    assert not placed(path, {}).stages
    own = placed(fewer, {"mentions": {}})
    assert {*own.stages} == {"mentions", "types"}
    assert all(replicas.memory for replicas in own.stages.values())
    assert placed(path, {}).replicas.memory > (whole.replicas.memory or 0)


def test_a_machine_without_room_for_all_replicas_is_told(
    models: ModelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rayner.serving.room.is_one_machine", lambda: True)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 2.0})
    values: dict[str, Any] = {"checkpoint": models.checkpoint, "replicas": {"cpus": 0.5}}
    stages: dict[str, Any] = {name: {"cpus": 0.25} for name in NAMES}
    check_room(ServeSettings.model_validate({**values, "stages": stages}))
    more = {"types": {"cpus": 0.25, "min": 3, "max": 3}}
    with pytest.raises(InputError, match=r"stages: .* need 2.25 CPUs, of 2; ") as told:
        check_room(ServeSettings.model_validate({**values, "stages": {**stages, **more}}))
    assert "cpus: 0" in told.value.hint
    # A stage that is not named has a replica, too.
    del stages["types"]
    with pytest.raises(InputError, match=r"stages: .* need 2.5 CPUs, of 2"):
        check_room(ServeSettings.model_validate({**values, "stages": stages}))
    stages["mentions"] = {"cpus": 0.25, "gpus": 0.5, "max": 4}
    with pytest.raises(InputError, match=r"stages: .* need 0.5 GPUs, of 0; .*gpus: 0"):
        check_room(ServeSettings.model_validate({**values, "replicas": {"cpus": 0}, "stages": stages}))
    for asked, message in (
        ({"gpus": 1}, "need 1 GPUs, of 0"),
        ({"cpus": 1, "min": 3, "max": 3}, "need 3 CPUs"),
    ):
        with pytest.raises(InputError, match=f"replicas: they {message}"):
            check_room(ServeSettings.model_validate({**values, "replicas": asked}))
