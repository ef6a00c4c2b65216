"""What actors say of the memory that they need, without Ray."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from rayner.runtime import actors
from rayner.runtime.actors import each_on_actors
from rayner.runtime.annotation.execution import Pool
from rayner.runtime.annotation.pools import PoolSettings, with_memory
from rayner.runtime.elsewhere import Needs
from rayner.runtime.model_memory import PROCESS, held_by, memory_of, placed_by_memory
from rayner.serving.application import build, deployment_options
from rayner.serving.application_settings import ReplicaSettings, ServeSettings
from rayner.serving.launch import Served
from rayner.tasks.stage_settings import StageSettings
from rayner.tasks.stages import PipelineSettings

GIB = 2**30
FILES = 3 * GIB


def node(memory: float, cpus: float = 4, gpus: float = 0, alive: bool = True) -> dict[str, Any]:
    return {"Alive": alive, "Resources": {"CPU": cpus, "GPU": gpus, "memory": memory * GIB}}


def on_nodes(monkeypatch: pytest.MonkeyPatch, *nodes: dict[str, Any]) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: [*nodes])


def of_size(path: Path, size: int) -> Path:
    """A file without blocks on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A folder as large as a checkpoint of 2 GiB of weights, with 1 GiB more below it."""
    of_size(tmp_path / "best/model.safetensors", 2 * GIB)
    of_size(tmp_path / "best/encoder/model.safetensors", GIB)
    return tmp_path / "best"


def test_it_is_by_the_files_each_once_and_of_an_index_the_last_version(
    checkpoint: Path, tmp_path: Path
) -> None:
    for version, size in (("000001", 8), ("000002", 2)):
        of_size(tmp_path / f"index/{version}/vectors.npy", size * GIB)
        of_size(tmp_path / f"index/{version}/index.json", 0)
    options: Any = SimpleNamespace(paths=lambda: {"index"}, index=tmp_path / "index")
    none: Any = SimpleNamespace(paths=lambda: set[str]())
    stages = [StageSettings(checkpoint, none), StageSettings(checkpoint, options)]
    assert memory_of(held_by(stages)) == PROCESS + 1.5 * (3 + 2) * GIB
    assert memory_of([]) == PROCESS


@pytest.mark.parametrize(
    ("nodes", "times", "needs", "asked"),
    [
        ([node(8)], 1, Needs(1), 5),
        ([node(8)], 2, Needs(1), None),
        ([node(8), node(6)], 2, Needs(1), 5),
        ([node(4)], 1, Needs(1), None),
        ([node(8, cpus=0), node(4)], 1, Needs(), None),
        ([node(8), node(4, gpus=1)], 1, Needs(1, gpus=0.5), None),
        ([node(1)], 1, Needs(1, memory=7 * GIB), 7),
    ],
)
def test_it_is_asked_for_where_nodes_have_it(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    nodes: list[dict[str, Any]],
    times: int,
    needs: Needs,
    asked: int | None,
) -> None:
    """Else the work begins as if nothing was known, and one line says so."""
    on_nodes(monkeypatch, *nodes)
    found = placed_by_memory(needs, 5 * GIB, times)
    assert found.memory == (None if asked is None else asked * GIB)
    assert (found.cpus, found.gpus) == (needs.cpus, needs.gpus)
    assert [record.levelno for record in caplog.records] == ([logging.WARNING] if asked is None else [])
    assert ("lack the estimated" in caplog.text) is (asked is None)


@pytest.mark.parametrize(
    ("nodes", "needs"),
    [([node(8)], Needs(1, gpus=0.5)), ([node(8)], Needs(10_000)), ([node(8, alive=False)], Needs(1))],
)
def test_where_it_is_no_memory_that_nodes_lack_nothing_is_said_of_it(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    nodes: list[dict[str, Any]],
    needs: Needs,
) -> None:
    """Who waits for a place says what is missing."""
    on_nodes(monkeypatch, *nodes)
    assert placed_by_memory(needs, 5 * GIB) == needs
    assert not caplog.records


@pytest.mark.parametrize(("given", "asked"), [(None, PROCESS + int(1.5 * FILES)), (GIB, GIB)])
def test_actors_ask_for_what_they_hold(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Path, given: int | None, asked: int
) -> None:
    on_nodes(monkeypatch, node(8))
    monkeypatch.setattr(actors, "ensure_ray", lambda: None)
    seen: list[Needs] = []

    def pool(load: Any, workers: int, needs: Needs, others: Any) -> Any:
        seen.append(needs)
        raise StopAsyncIteration

    monkeypatch.setattr(actors, "_Pool", pool)
    with pytest.raises(StopAsyncIteration):
        next(each_on_actors(lambda: len, ["part"], 2, Needs(1, memory=given), [checkpoint], "cpu"))
    assert [needs.memory for needs in seen] == [asked]


def test_annotating_actors_ask_for_their_stages(monkeypatch: pytest.MonkeyPatch, checkpoint: Path) -> None:
    none: Any = SimpleNamespace(paths=lambda: set[str]())
    small = StageSettings(checkpoint / "encoder", none)
    source = PipelineSettings((StageSettings(checkpoint, none), small), is_file=True)
    one, both = int(PROCESS + 1.5 * GIB), int(PROCESS + 1.5 * FILES)
    on_nodes(monkeypatch, node(16, cpus=8))
    fixed = PoolSettings(workers=1)
    whole = with_memory(Pool(1, 8, 1, 0), source, PoolSettings())
    assert (whole.memory, whole.most) == ((int(PROCESS + 1.5 * 4 * GIB),), 2)
    assert with_memory(Pool(4, 4, 1, 0), source, fixed).most == 4
    assert with_memory(Pool(1, 1, 1, 0, stages=2), source, fixed).memory == (both, one)
    assert (
        with_memory(Pool(1, 1, 1, 0, stages=2), source, replace(fixed, memory=0.5)).memory == (GIB // 2,) * 2
    )
    for nothing in (
        with_memory(Pool(1, 8, 1, 0), source, PoolSettings(memory=0)),
        with_memory(Pool(4, 4, 1, 0, stages=2), source, fixed),
    ):
        assert nothing.memory == ()


NONE: Any = SimpleNamespace(paths=lambda: set[str]())


@pytest.fixture
def sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of so many GiB; folders are taken for checkpoints."""

    def read(path: str) -> PipelineSettings:
        return PipelineSettings((StageSettings(Path(path), NONE),), is_file=False)

    monkeypatch.setattr("rayner.serving.replica_memory.pipeline_settings", read)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    on_nodes(monkeypatch, node(16))


@pytest.mark.usefixtures("sixteen")
def test_replicas_ask_for_what_they_had_at_the_start(checkpoint: Path) -> None:
    """Another memory of theirs would replace them where only models change."""
    served = Served()
    first = ServeSettings(checkpoint=str(checkpoint))
    assert served._placed(first).replicas.memory == 5
    more = ServeSettings(checkpoint=str(checkpoint / "encoder"), models={"a": str(checkpoint)})
    assert served._placed(more).replicas.memory == 5
    given = ServeSettings(checkpoint=str(checkpoint), replicas=ReplicaSettings(memory=1.5))
    assert deployment_options(served._placed(given).replicas)["ray_actor_options"]["memory"] == 1.5 * GIB
    # With the one that takes another's place they are four, which fit no node.
    three = ServeSettings(checkpoint=str(checkpoint), replicas=ReplicaSettings(min=3, max=4))
    assert "memory" not in deployment_options(Served()._placed(three).replicas)["ray_actor_options"]
    at_uri = ServeSettings(checkpoint="s3://bucket/best")
    assert Served()._placed(at_uri).replicas.memory == 0


@pytest.mark.usefixtures("sixteen")
def test_an_application_of_a_file_asks_for_it_where_its_args_name_the_models(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def memory(**args: Any) -> float | None:
        asked: Any = build(args)
        return asked._bound_deployment.ray_actor_options.get("memory")

    assert memory(checkpoint=str(checkpoint)) == 5 * GIB
    assert memory(checkpoint=str(checkpoint), replicas={"memory": 1}) == GIB
    assert memory(replicas={"memory": 1}) == GIB
    assert not caplog.records
    assert memory() is None
    assert "name replicas.memory" in caplog.text


@pytest.mark.usefixtures("sixteen")
def test_replicas_of_a_stage_ask_for_what_it_holds(monkeypatch: pytest.MonkeyPatch, checkpoint: Path) -> None:
    small = StageSettings(checkpoint / "encoder", NONE)
    pipeline = PipelineSettings((StageSettings(checkpoint, NONE), small), is_file=True)
    monkeypatch.setattr("rayner.serving.replica_memory.composed_pipeline", lambda *_: pipeline)
    monkeypatch.setattr("rayner.serving.replica_memory.stage_names", lambda _: ["mentions", "entities"])
    settings = ServeSettings.model_validate({"checkpoint": str(checkpoint), "stages": {"mentions": {}}})
    placed = Served()._placed(settings)
    found = {name: stage.memory for name, stage in placed.stages.items()}
    assert (placed.replicas.memory, found) == (0.5, {"mentions": 5, "entities": 2})
    # Each would fit, but not all of them together.
    on_nodes(monkeypatch, node(11))
    placed = Served()._placed(settings)
    assert (placed.replicas.memory, placed.stages["mentions"].memory) == (0, 0)
