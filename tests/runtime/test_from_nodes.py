"""Results that nodes of a cluster make: each as it comes, and no wait without a bound for nodes that went."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from rayner.errors import InputError, RaynerError
from rayner.runtime import elsewhere
from rayner.runtime.elsewhere import WAIT_VARIABLE, Needs, from_nodes


class Cluster:
    """Ray's functions: what there is, and how often room was asked for, which is never had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **there: float) -> None:
        self.there, self.asked = there, 0
        monkeypatch.setenv(WAIT_VARIABLE, "0.1")
        monkeypatch.setattr(elsewhere, "SECONDS_BETWEEN_LOOKS", 0.01)
        task = SimpleNamespace(remote=lambda: "room")
        monkeypatch.setattr(ray, "remote", lambda **options: lambda function: task)
        monkeypatch.setattr(ray, "wait", self.wait)
        monkeypatch.setattr(ray, "available_resources", dict)
        monkeypatch.setattr(ray, "cluster_resources", lambda: self.there)

    def wait(self, given: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        self.asked += 1
        return [], given


def after(event: Event, *results: int) -> Iterator[int]:
    """Results, of which all but the first come once the event is set."""
    yield results[0]
    assert event.wait(60)
    yield from results[1:]


@pytest.mark.parametrize("needs", [Needs(cpus=1), Needs(cpus=0.5, gpus=0.5)])
def test_nodes_that_all_went_are_waited_for_with_a_bound(
    monkeypatch: pytest.MonkeyPatch, needs: Needs
) -> None:
    Cluster(monkeypatch, CPU=0.7)
    more, seen = Event(), []
    with pytest.raises(InputError, match=r"no node has had room for .* for 0\.1 s; free are 0 of 0\.7 CPU"):
        seen.extend(from_nodes(after(more, 1, 2), needs))
    assert seen == [1]
    more.set()


def test_slow_results_of_nodes_that_are_there_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, more = Cluster(monkeypatch, CPU=2, GPU=1), Event()
    results = from_nodes(after(more, 1, 2, 3), Needs(cpus=2, gpus=1))
    assert next(results) == 1
    assert not more.wait(0.1)
    more.set()
    assert [*results] == [2, 3]
    assert not cluster.asked


def test_results_that_were_made_before_the_nodes_went_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch)
    assert [*from_nodes(range(1000), Needs(cpus=1))] == [*range(1000)]


def test_an_error_among_the_results_is_raised_after_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, CPU=1)

    def failing() -> Iterator[int]:
        yield 1
        raise RaynerError("a.jsonl: cannot be read")

    seen = []
    with pytest.raises(RaynerError, match=r"^a\.jsonl: cannot be read$"):
        seen.extend(from_nodes(failing(), Needs(cpus=1)))
    assert seen == [1]


def test_work_for_nobody_ends_with_its_next_result(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, CPU=1)
    ended, more = Event(), Event()

    def endless() -> Iterator[int]:
        try:
            yield 1
            assert more.wait(60)
            while True:
                yield 2
        finally:
            ended.set()

    results = from_nodes(endless(), Needs(cpus=1))
    assert next(results) == 1
    results.close()  # pyright: ignore[reportAttributeAccessIssue]
    more.set()
    assert ended.wait(60)
