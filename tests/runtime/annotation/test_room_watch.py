"""An annotation waits for nodes that all went, says so, and gives up."""

from __future__ import annotations

import logging

import pytest
import ray

from rayner.errors import InputError
from rayner.runtime import elsewhere
from rayner.runtime.annotation import execution
from rayner.runtime.annotation.execution import room_watch
from rayner.runtime.elsewhere import WAIT_VARIABLE, Needs


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What the cluster has, for a test to change; all of it is taken."""
    resources: dict[str, float] = {}
    monkeypatch.setattr(ray, "cluster_resources", lambda: resources)
    monkeypatch.setattr(ray, "available_resources", dict)
    monkeypatch.setattr(execution, "SECONDS_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(elsewhere, "SECONDS_BETWEEN_LINES", 0.0)
    return resources


@pytest.mark.parametrize("needs", [Needs(cpus=1), Needs(cpus=0.5, gpus=0.5)])
def test_nodes_that_all_went_are_waited_for_with_a_bound(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, there: dict[str, float], needs: Needs
) -> None:
    there |= {"CPU": 0.7}
    monkeypatch.setenv(WAIT_VARIABLE, "60")
    with caplog.at_level(logging.INFO):
        callback = room_watch(needs)()
        for _ in range(3):
            callback.on_execution_step(None)
    assert "waiting for a node with room for cpus" in caplog.text
    monkeypatch.setenv(WAIT_VARIABLE, "0")
    callback = room_watch(needs)()
    callback.on_execution_step(None)
    with pytest.raises(InputError, match=r"no node has had room for cpus .* for 0 s; free are 0 of 0\.7 CPU"):
        callback.on_execution_step(None)


def test_nodes_that_came_back_may_go_again(monkeypatch: pytest.MonkeyPatch, there: dict[str, float]) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, "0")
    callback = room_watch(Needs(cpus=2, gpus=1))()
    for _ in range(3):
        there.clear()
        callback.on_execution_step(None)
        there |= {"CPU": 2, "GPU": 1}
        callback.on_execution_step(None)
    there.clear()
    callback.on_execution_step(None)
    with pytest.raises(InputError, match="no node has had room for cpus 2, gpus 1 for 0 s"):
        callback.on_execution_step(None)
