"""More workers than the cluster has room for: those that start do the work, and a wait is told."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import pytest
import ray
from ray.exceptions import OutOfMemoryError

from rayner.errors import InputError, RaynerError
from rayner.runtime import actors, elsewhere
from rayner.runtime.actors import LOSSES, each_on_actors
from rayner.runtime.elsewhere import ATTEMPTS, WAIT_VARIABLE, Needs, seconds_to_wait, work_elsewhere


class Cluster:
    """Ray's functions, on a cluster with room for `room` actors: what others are asked never comes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room, self.actors, self.killed = room, list[Any](), set[int]()
        self.options: dict[str, Any] = {}
        for module in (actors, elsewhere):
            monkeypatch.setattr(module, "ensure_ray", lambda: None)
        monkeypatch.setattr(actors, "SECONDS_TO_START", 0.0)
        for name, function in {
            "remote": lambda **options: lambda cls: _Remote(self, cls),
            "wait": self.wait,
            "get": self.get,
            "kill": self.kill,
            "available_resources": lambda: {"CPU": 0.0},
            "cluster_resources": lambda: {"CPU": float(room)},
        }.items():
            monkeypatch.setattr(ray, name, function)

    def wait(self, given: list[Any], num_returns: int = 1, timeout: float = 0) -> tuple[list[Any], list[Any]]:
        done = [one for one in given if self.actors.index(one.actor) < self.room]
        return done, [one for one in given if one not in done]

    def get(self, one: Any) -> Any:
        number = self.actors.index(one.actor)
        assert number < self.room, "waits for ever on an actor that has no room"
        if number in self.killed:
            raise OutOfMemoryError("Task was killed due to the node running low on memory.\nAdvice")
        return one.call()

    def kill(self, actor: Any) -> None:
        self.room += 1


class _Remote:
    def __init__(self, cluster: Cluster, cls: Any) -> None:
        self.cluster, self.cls = cluster, cls

    def remote(self, *given: Any) -> _Actor:
        actor = _Actor(self.cls(*given))
        self.cluster.actors.append(actor)
        return actor

    def options(self, **options: Any) -> _Remote:
        self.cluster.options = options
        return self


class _Actor:
    def __init__(self, instance: Any) -> None:
        self.instance = instance

    def __getattr__(self, name: str) -> _Method:
        return _Method(self, getattr(self.instance, name))


class _Method:
    def __init__(self, actor: _Actor, function: Callable[..., Any]) -> None:
        self.actor, self.function = actor, function

    def remote(self, *given: Any) -> _Answer:
        return _Answer(self.actor, lambda: self.function(*given))


class _Answer:
    def __init__(self, actor: _Actor, call: Callable[[], Any]) -> None:
        self.actor, self.call = actor, call


def test_the_actors_that_start_do_the_work_and_the_rest_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Cluster(monkeypatch, room=2)
    with caplog.at_level(logging.INFO):
        found = list(each_on_actors(lambda: lambda part: 2 * part, range(9), 4, Needs(cpus=1)))
    assert found == [2 * part for part in range(9)]
    (line,) = caplog.messages
    assert line.startswith("2 of 4 workers have started and begin; the others join when they have;")
    assert line.endswith("0 of 2 CPU. Ask for fewer with --workers, or add nodes, if they never do.")


def test_where_no_actor_starts_the_work_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, room=0)
    monkeypatch.setenv(WAIT_VARIABLE, "0.01")
    with pytest.raises(InputError, match=r"no node has had room for cpus 1 for 0\.01 s; free are .* CPU"):
        list(each_on_actors(lambda: lambda part: part, range(3), 2, Needs(cpus=1)))


def test_actors_that_are_killed_for_memory_are_lost_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, room=2).killed = {0, 1, 3}
    found = list(each_on_actors(lambda: lambda part: 2 * part, range(9), 2, Needs(cpus=1)))
    assert found == [2 * part for part in range(9)]
    Cluster(monkeypatch, room=1).killed = set(range(9))
    lost = f"lost its node or process {LOSSES + 1} times, .*: Task was killed due to .* low on memory.$"
    with pytest.raises(RaynerError, match=lost):
        list(each_on_actors(lambda: lambda part: part, range(3), 1, Needs(cpus=1)))


def test_work_elsewhere_that_is_killed_for_memory_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, room=1).killed = {0, 1}
    assert work_elsewhere(lambda attempt: attempt, Needs(cpus=1), {}) == 3
    Cluster(monkeypatch, room=1).killed = set(range(9))
    with pytest.raises(RaynerError, match=f"lost its node or process {ATTEMPTS} times"):
        work_elsewhere(lambda attempt: attempt, Needs(cpus=1), {})


def test_what_may_hold_a_password_is_no_part_of_a_runtime_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, room=1)
    make = _Remote.remote

    def on_node(self: _Remote, *given: Any) -> _Actor:
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
        return make(self, *given)

    monkeypatch.setattr(_Remote, "remote", on_node)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://ada:secret@host")
    found = work_elsewhere(lambda _: os.environ["MLFLOW_TRACKING_URI"], Needs(cpus=1), {"RAYNER_DATA": "d"})
    assert found == "https://ada:secret@host"
    assert cluster.options == {"runtime_env": {"env_vars": {"RAYNER_DATA": "d"}}}


@pytest.mark.parametrize(
    ("there", "free", "workers", "device", "gpus"),
    [
        (1, 1, 2, None, 0.5),
        # A part of a GPU is a part of one of them.
        (2, 2, 3, None, 0.5),
        (2, 1, 3, None, 0.3333),
        (2, 2, 1, None, 1),
        (2, 0, 2, "cuda", 1),
        (2, 0, 2, None, None),
        (2, 2, 2, "cpu", None),
        (0, 0, 2, None, None),
    ],
)
def test_workers_share_the_gpus_that_are_free_or_see_none(
    monkeypatch: pytest.MonkeyPatch,
    there: int,
    free: int,
    workers: int,
    device: str | None,
    gpus: float | None,
) -> None:
    """Ray hides none from an actor that asks for none: all would work on the first."""
    asked: list[Any] = []
    cluster = Cluster(monkeypatch, workers)

    def remote(**options: Any) -> Callable[[Any], _Remote]:
        asked.append(options)
        return lambda cls: _Remote(cluster, cls)

    monkeypatch.setattr(ray, "remote", remote)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0, "GPU": float(there)})
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 2.0, "GPU": float(free)})
    for needs in (Needs(cpus=1), Needs(cpus=1, gpus=0.25)):
        assert list(each_on_actors(lambda: str, [0], workers, needs, device=device)) == ["0"]
        cluster.actors.clear()
    assert [options.get("num_gpus") for options in asked] == [gpus, 0.25]
    hidden = {"env_vars": {"CUDA_VISIBLE_DEVICES": ""}} if there and not gpus and device is None else None
    assert [options.get("runtime_env") for options in asked] == [hidden, None]


@pytest.mark.parametrize("given", ["30m", "-1", "nan", "inf"])
def test_a_bound_that_is_no_number_of_seconds_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, given)
    with pytest.raises(InputError, match=f"{WAIT_VARIABLE}={given}: is no number of seconds; .* 1800"):
        seconds_to_wait()
