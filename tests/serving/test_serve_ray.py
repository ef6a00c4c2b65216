"""The application on Ray Serve: one cluster, one application, asked over HTTP."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import obstore
import pytest
import requests
import yaml

import rayner
from rayner.data.schema import Entity
from rayner.errors import InputError, RaynerError
from rayner.retrieval.index_folder import remove_entities, version_of_index
from rayner.serving.application import NAME
from rayner.serving.application_settings import ModelSettings, ServeSettings
from rayner.serving.deployment import failed_change_of
from rayner.serving.launch import Served, metrics_address
from rayner.tasks.checkpoint import version_of
from tests.object_storage import BUCKET, Storage
from tests.serving.checkpoints import PEOPLE, TEXTS, recognizer_folder, standardizer_folder
from tests.serving.load import under_load
from tests.waiting import wait_for

EXTRA = Entity("noether", "Emmy Noether")
BODY = {"documents": [{"text": text} for text in TEXTS]}
PRESSURE = {"ongoing": 2, "queued": 8, "retry_after": 2}
BOOK = {"documents": [{"text": " ".join(TEXTS * 30)}]}


class Service:
    """An application whose settings can be changed."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.old, self.new = recognizer_folder(folder / "old", 60), recognizer_folder(folder / "new", 30)
        people, self.index = standardizer_folder(folder / "people", (*PEOPLE, EXTRA))
        linking = {"checkpoint": "people/best", "index": "people/index", "operating_point": "never"}
        self.pipeline = folder / "pipeline.yaml"
        self.pipeline.write_text(yaml.safe_dump({"stages": [{"checkpoint": "old"}, linking]}))
        self.settings = ServeSettings.model_validate(
            {
                "checkpoint": str(self.old),
                "knowledge_bases": {"people": {"index": str(self.index), "standardizer": str(people)}},
                "replicas": {"cpus": 0.1, "threads": 1, "health_period": 1, "drain": 20, **PRESSURE},
                "http": {"port": self.port},
            }
        )
        self.served = Served()
        self.served.change(self.settings)

    def composed(self, pipeline: str) -> ServeSettings:
        """A copy of the pipeline, each stage of it a deployment."""
        stages = {name: {"cpus": 0.1, "threads": 1} for name in ("mentions", "entities")}
        models = {"checkpoint": pipeline, "models": {}, "knowledge_bases": {}}
        return ServeSettings.model_validate({**self.settings.model_dump(), **models, "stages": stages})

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def change(self, **changes: Any) -> None:
        """Bring the application to other settings and wait until they are in force."""
        self.settings = ServeSettings.model_validate({**self.settings.model_dump(), **changes})
        self.served.change(self.settings)

    def replicas(self, **changes: Any) -> dict[str, Any]:
        return {"replicas": {**self.settings.replicas.model_dump(), **changes}}

    def version(self) -> str:
        return requests.get(self.url("/v1/models"), timeout=30).json()["recognizer"]["version"]


@pytest.fixture(scope="module")
def served(ray_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    from ray import serve

    yield Service(tmp_path_factory.mktemp("checkpoints"))
    serve.shutdown()


def test_answers_are_those_of_predict(served: Service) -> None:
    reply = requests.post(served.url("/v1/recognize"), json=BODY, timeout=60).json()
    expected = rayner.load(served.old, "cpu").predict(TEXTS)
    assert [[(m["start"], m["end"], m["type"]) for m in d["mentions"]] for d in reply["documents"]] == [
        [(m.start, m.end, m.type) for m in document.mentions] for document in expected
    ]
    scores = [m["score"] for d in reply["documents"] for m in d["mentions"]]
    assert scores == pytest.approx([m.score for d in expected for m in d.mentions], abs=1e-4)
    assert reply["versions"]["recognizer"] == version_of(served.old)


def test_errors_pass_through_the_proxy(served: Service) -> None:
    reply = requests.post(served.url("/v1/recognize"), json={"documents": [{"txt": ""}]}, timeout=60)
    assert reply.status_code == 422
    assert "documents.0.text" in [problem["field"] for problem in reply.json()["detail"]]
    big = requests.post(served.url("/v1/recognize"), data=b" " * (9 << 20), timeout=60)
    assert big.status_code == 413
    for path in ("/healthz", "/readyz", "/docs", "/"):
        assert requests.get(served.url(path), timeout=30).status_code == 200


def test_metrics_are_on_the_port_of_ray(served: Service) -> None:
    reply = requests.post(served.url("/v1/recognize"), json=BODY, timeout=60).json()
    mentions = sum(len(document["mentions"]) for document in reply["documents"])

    def value(name: str, label: str) -> float:
        lines = requests.get(metrics_address(), timeout=30).text.splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{") and label in line
        )

    # They are sent now and then, those of a replica together.
    wait_for(lambda: value("ray_rayner_mentions_total", 'endpoint="recognize"') >= mentions, pause=1)
    assert mentions
    assert value("ray_rayner_items_total", 'endpoint="recognize"') >= len(TEXTS)
    assert value("ray_rayner_batch_tokens_count", "") >= 1
    assert value("ray_rayner_model", version_of(served.old)) == 1
    assert value("ray_rayner_model", version_of(served.new)) == 0


def test_under_pressure_some_are_told_when_to_come_again(served: Service) -> None:
    def ask(_: int) -> requests.Response:
        return requests.post(served.url("/v1/recognize"), json=BOOK, timeout=120)

    with ThreadPoolExecutor(24) as pool:
        replies = list(pool.map(ask, range(24)))
    assert {reply.status_code for reply in replies} == {200, 503}
    assert {reply.headers["Retry-After"] for reply in replies if reply.status_code == 503} == {"2"}


def test_new_models_come_in_without_a_failed_request(served: Service) -> None:
    old, new = version_of(served.old), version_of(served.new)
    with under_load(served.url("/v1/recognize"), lambda: BODY) as seen:
        wait_for(lambda: len(seen.replies) > 5)
        served.change(checkpoint=str(served.new), models={"before": str(served.old)})
        wait_for(lambda: served.version() == new)
        count = len(seen.replies)
        wait_for(lambda: len(seen.replies) > count + 10)
    assert not seen.failed
    assert not seen.retried
    versions = [reply["versions"]["recognizer"] for reply in seen.replies]
    assert set(versions) == {old, new}
    expected = {
        version: [len(d.mentions) for d in rayner.load(folder, "cpu").predict(TEXTS)]
        for version, folder in ((old, served.old), (new, served.new))
    }
    for reply in seen.replies:
        made = [len(document["mentions"]) for document in reply["documents"]]
        assert made == expected[reply["versions"]["recognizer"]]
    named = requests.post(served.url("/v1/recognize"), json={**BODY, "model": "before"}, timeout=60).json()
    assert named["versions"]["recognizer"] == old
    served.change(checkpoint=str(served.old), models={})


def test_a_new_index_comes_in_without_a_failed_request(served: Service) -> None:
    old = version_of_index(served.index)
    body = {"mentions": ["Emmy Noether", "Marie Curie"], "operating_point": "never"}
    with under_load(served.url("/v1/standardize"), lambda: body) as seen:
        wait_for(lambda: len(seen.replies) > 5)
        remove_entities(served.index, [EXTRA.entity_id])
        new = version_of_index(served.index)
        served.change(revision="without Noether")
        wait_for(lambda: seen.replies[-1]["versions"]["knowledge_bases"]["people"]["index"] == new)
    assert not seen.failed
    assert not seen.retried
    for reply in seen.replies:
        version = reply["versions"]["knowledge_bases"]["people"]["index"]
        first, second = (answer["entity_id"] for answer in reply["answers"])
        assert version in (old, new)
        assert (first == EXTRA.entity_id) is (version == old)
        assert second == "curie"


def test_models_that_do_not_load_change_nothing(served: Service, tmp_path: Path) -> None:
    broken = recognizer_folder(tmp_path / "broken", 60)
    (broken / "model.safetensors").write_bytes(b"cut short")
    before = served.version()
    with pytest.raises(RaynerError, match="cut short"):
        served.change(checkpoint=str(broken))
    wait_for(lambda: requests.get(served.url("/v1/models"), timeout=30).json()["failed_change"])
    assert "cut short" in (failed_change_of(NAME) or "")
    assert target().checkpoint == str(served.old), "what a replica loads that starts now"
    assert served.version() == before
    assert requests.post(served.url("/v1/recognize"), json=BODY, timeout=60).status_code == 200
    served.change(checkpoint=str(served.old))
    wait_for(lambda: requests.get(served.url("/v1/models"), timeout=30).json()["failed_change"] is None)
    assert failed_change_of(NAME) is None


def target() -> ModelSettings:
    """What Serve tells the replicas of this test's application."""
    from ray.serve.context import _get_global_client

    deployment = _get_global_client().get_serve_details()["applications"][NAME]["deployments"][NAME]
    return ModelSettings.model_validate(deployment["deployment_config"]["user_config"])


def test_applications_leave_each_other_alone_and_a_composed_one_has_the_answers_of_predict(
    served: Service, storage: Storage
) -> None:
    from ray import serve
    from ray.serve.context import _get_global_client
    from ray.serve.schema import ServeDeploySchema

    other = {"name": "other", "route_prefix": "/other", "import_path": "tests.serving.other_application:app"}
    client = _get_global_client()
    assert client is not None
    client.deploy_apps(ServeDeploySchema.model_validate({"applications": [other]}))
    wait_for(lambda: serve.status().applications["other"].status == "RUNNING")
    served.change(revision="beside another")
    # A command that finds its name or its prefix taken fails, and takes nothing away.
    for taken in (Served(), Served("other", "/else"), Served("second", "/"), Served("second", "/other")):
        with pytest.raises(InputError, match=r"--name|--route-prefix"):
            taken.deploy(served.settings)
        taken.stop()
    second = Served("second", "/second")
    for path in filter(Path.is_file, served.pipeline.parent.rglob("*")):
        obstore.put(storage.store(), f"serving/{path.relative_to(served.pipeline.parent)}", path)
    assert second.change(served.composed(f"s3://{BUCKET}/serving/pipeline.yaml"))
    deployments = {"rayner", "mentions", "entities"}
    assert set(serve.status().applications["second"].deployments) == deployments
    reply = requests.post(served.url("/second/v1/annotate"), json=BODY, timeout=60).json()
    assert reply["versions"]["recognizer"] == version_of(served.old)
    expected = rayner.load(served.pipeline, "cpu").predict(TEXTS)
    found = [
        [(m["start"], m["end"], m["type"], m["entity_id"], m["name"]) for m in d["mentions"]]
        for d in reply["documents"]
    ]
    assert found == [[(m.start, m.end, m.type, m.entity_id, m.name) for m in d.mentions] for d in expected]
    scores = [one["score"] for d in reply["documents"] for m in d["mentions"] for one in m["candidates"]]
    answered = [one.score for d in expected for m in d.mentions for one in m.candidates]
    assert scores == pytest.approx(answered, abs=1e-4)
    assert scores
    assert requests.get(served.url("/second/readyz"), timeout=30).status_code == 200
    second.stop()
    assert set(serve.status().applications) == {NAME, "other"}
    assert requests.get(served.url("/other"), timeout=30).text == "other"
    assert requests.post(served.url("/v1/recognize"), json=BODY, timeout=60).status_code == 200
    serve.delete("other")


@pytest.mark.faults
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_rolling_update_fails_no_request(served: Service, replicas: int) -> None:
    served.change(**served.replicas(min=replicas, max=replicas))
    with under_load(served.url("/v1/recognize"), lambda: BODY) as seen:
        wait_for(lambda: len(seen.replies) > 5)
        limits = served.settings.limits
        served.change(limits={**limits.model_dump(), "documents": limits.documents + 1})
        count = len(seen.replies)
        wait_for(lambda: len(seen.replies) > count + 10)
    assert not seen.failed, seen.failed[:3]


@pytest.mark.faults
def test_a_killed_replica_fails_no_request_of_who_retries(served: Service) -> None:
    served.change(**served.replicas(min=2, max=2))
    wait_for(lambda: len(replica_pids()) == 2)
    before = replica_pids()
    with under_load(served.url("/v1/recognize"), lambda: BODY) as seen:
        wait_for(lambda: len(seen.replies) > 10)
        os.kill(min(before), signal.SIGKILL)
        wait_for(lambda: len(replica_pids() - before) == 1, 120)
        count = len(seen.replies)
        wait_for(lambda: len(seen.replies) > count + 10)
    assert not seen.failed, seen.failed[:3]


def replica_pids() -> set[int]:
    """The processes of the running replicas of this test's application, as Ray Serve has them."""
    from ray.serve.context import _get_global_client

    deployment = _get_global_client().get_serve_details()["applications"][NAME]["deployments"][NAME]
    return {replica["pid"] for replica in deployment["replicas"] if replica["state"] == "RUNNING"}
