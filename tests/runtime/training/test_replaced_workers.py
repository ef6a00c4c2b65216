"""The first worker of a run at a URI that another one has replaced, and that Ray has lost, without Ray."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rayner.files.publishing import TakenOverError
from rayner.runtime.training import train_controller
from rayner.runtime.training.ray_workers import _publication_of
from rayner.runtime.training.train_controller import counting, times_started
from tests.files.folders_at_uris import published
from tests.object_storage import Storage


def test_a_worker_that_begins_when_it_was_replaced_stops(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_controller, "_started", 0)
    context = SimpleNamespace(get_node_id=lambda: "node")
    monkeypatch.setattr("ray.get_runtime_context", lambda: context)
    driver = published("lost-by-ray")
    config = {"publication": (driver.uri, driver.owner, driver.attempt)}

    def execute(tell: Callable[..., None], *given: Any) -> None:
        tell(*given)

    callback, group = counting(), SimpleNamespace(execute=execute)
    for count in (1, 2):
        callback.after_worker_group_start(group)
        assert times_started() == count
    assert _publication_of(config) is not None
    # Each worker has a process of its own, and this one begins late.
    monkeypatch.setattr(train_controller, "_started", 1)
    with pytest.raises(TakenOverError, match="is written by the process that replaced this one"):
        _publication_of(config)
    driver.open()
    driver.push()
