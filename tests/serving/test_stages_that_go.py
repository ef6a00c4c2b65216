"""Stages of before that are no deployments any more, without Ray: they go after those who ask them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import yaml
from ray import serve

from rayner.serving import launch
from rayner.serving.application_settings import ServeSettings
from rayner.serving.launch import Served
from rayner.tasks.checkpoint import save_checkpoint
from tests.serving.checkpoints import ranker_folder, typer_folder
from tests.tasks.small import built, recognizer

FRONT = "rayner"


class FakeServe:
    """What Serve is told, and says."""

    def __init__(self) -> None:
        self.told: list[set[str]] = []
        self.versions: list[str] = []
        self.unhealthy: set[str] = set()
        self.status = "RUNNING"
        self.http_config = None

    def run_many(self, targets: list[Any], **_: Any) -> None:
        (target,) = targets
        front = target.target._bound_deployment
        self.told.append({FRONT, *(name for stages in front.init_args[1:] for name in stages)})
        self.versions.append(front.version)

    def get_serve_details(self) -> dict[str, Any]:
        found = {"rayner": {"route_prefix": "/", "deployments": {"rayner": {"replicas": []}}}}
        return {"applications": found if self.told else {}}

    def get_serve_status(self, _: str) -> Any:
        statuses = [
            SimpleNamespace(
                name=name, status="UNHEALTHY" if name in self.unhealthy else "HEALTHY", message=""
            )
            for name in self.told[-1]
        ]
        status = SimpleNamespace(status=self.status, message="cannot start")
        return SimpleNamespace(app_status=status, deployment_statuses=statuses)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeServe:
    found = FakeServe()
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 4.0})
    monkeypatch.setattr(serve, "start", lambda **_: None)
    monkeypatch.setattr(serve, "run_many", found.run_many)
    monkeypatch.setattr("ray.serve.context._get_global_client", lambda: found)
    monkeypatch.setattr("rayner.serving.room.is_one_machine", lambda: False)
    monkeypatch.setattr(launch, "memory_of_replicas", lambda *_: {})
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pipelines of three stages and of two."""
    folder = tmp_path_factory.mktemp("pipelines")
    ranker_folder(folder / "ranker")
    task = recognizer(windows={"length": 40, "overlap": 10, "context": 12})
    save_checkpoint(folder / "recognizer", task, built(task), {})
    typer_folder(folder / "typer")
    stages = [{"checkpoint": name} for name in ("ranker", "recognizer", "typer")]
    (folder / "three.yaml").write_text(yaml.safe_dump({"stages": stages}))
    (folder / "two.yaml").write_text(yaml.safe_dump({"stages": stages[1:]}))
    return folder


def settings_of(folder: Path, pipeline: str, apart: bool = True) -> ServeSettings:
    stages = {"stages": {"mentions": {"cpus": 0.5}}} if apart else {}
    return ServeSettings.model_validate({"checkpoint": str(folder / pipeline), **stages})


THREE = {FRONT, "contexts", "mentions", "types"}


@pytest.mark.parametrize(
    ("pipeline", "apart", "left"),
    [("three.yaml", False, {FRONT}), ("two.yaml", True, {FRONT, "mentions", "types"})],
)
def test_stages_go_once_other_replicas_answer(
    fake: FakeServe, folder: Path, pipeline: str, apart: bool, left: set[str]
) -> None:
    served = Served()
    assert served.change(settings_of(folder, "three.yaml"))
    assert served.change(settings_of(folder, pipeline, apart))
    assert fake.told == [THREE, THREE, left]
    # With another version, Serve would replace the new replicas once more.
    assert fake.versions[0] != fake.versions[1] == fake.versions[2]
    assert served.change(settings_of(folder, "three.yaml"))
    assert fake.told[3:] == [THREE]


def test_stages_that_do_not_run_are_not_waited_for(fake: FakeServe, folder: Path) -> None:
    served = Served()
    served.change(settings_of(folder, "three.yaml"))
    fake.unhealthy = {"mentions", "types"}
    served.change(settings_of(folder, "three.yaml", apart=False))
    assert fake.told[1:] == [{FRONT, "contexts"}, {FRONT}]


def test_without_room_beside_them_they_go_at_once(
    fake: FakeServe, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served()
    served.change(settings_of(folder, "three.yaml"))
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 0.5})
    served.change(settings_of(folder, "three.yaml", apart=False))
    assert fake.told == [THREE, {FRONT}]
    assert "no room for new replicas beside stages that go (contexts, mentions, types)" in caplog.text


def test_who_waits_no_longer_leaves_them_to_the_next_change(fake: FakeServe, folder: Path) -> None:
    served = Served()
    served.change(settings_of(folder, "three.yaml"))
    fake.status = "DEPLOYING"
    assert not served.change(settings_of(folder, "three.yaml", apart=False), lambda: True)
    fake.status = "RUNNING"
    assert served.change(settings_of(folder, "three.yaml", apart=False))
    assert fake.told == [THREE, THREE, THREE, {FRONT}]
