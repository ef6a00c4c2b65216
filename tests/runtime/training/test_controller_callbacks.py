"""What a run adds to Ray Train's controller: a bound of the wait for room, and a log of what is news."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import cloudpickle
from ray.exceptions import GetTimeoutError
from ray.train.v2._internal.exceptions import WorkerGroupStartupTimeoutError
from ray.train.v2._internal.execution import callback_manager
from ray.train.v2._internal.execution.controller import controller
from ray.train.v2._internal.execution.controller import state as states
from ray.train.v2._internal.execution.scaling_policy import autoscaling_coordinator_client

from rayner.errors import InputError
from rayner.runtime.elsewhere import WAIT_VARIABLE, Needs
from rayner.runtime.training import controller_callbacks
from rayner.runtime.training.controller_callbacks import RoomWatch, hide_known_errors


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock shows, on a cluster without room and with a bound of 100 s."""
    shown = [0.0]
    monkeypatch.setattr(controller_callbacks, "time", SimpleNamespace(monotonic=lambda: shown[0]))
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 0.0})
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setenv(WAIT_VARIABLE, "100")
    return shown


def test_that_workers_did_not_start_is_told_each_time_and_has_a_bound(
    now: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch = RoomWatch(Needs(1, gpus=0.5), 4)
    # The controller's process has another environment.
    monkeypatch.delenv(WAIT_VARIABLE)
    scheduling: Any = states.SchedulingState(None)  # pyright: ignore[reportArgumentType]
    again: Any = states.ReschedulingState(None)  # pyright: ignore[reportArgumentType]

    def tried(until: float) -> None:
        watch.changed(again, scheduling)
        now[0] = until
        watch.changed(scheduling, again)

    tried(60.0)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message.startswith("waiting for room for 4 x cpus 1, gpus 0.5; free are 0 of 2 CPU")
    watch.changed(scheduling, states.RunningState())
    tried(150.0)
    with pytest.raises(InputError, match=r"no room for 4 x cpus 1, gpus 0\.5 for 100 s; free are 0 of 2 CPU"):
        tried(210.0)


@pytest.mark.parametrize("state", [states.InitializingState, states.RestartingState])
def test_an_elastic_run_below_its_least_workers_says_so_and_gives_up(
    state: Any, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    waits = state() if state is states.InitializingState else state(None)
    watch = RoomWatch(Needs(1), 2)
    watch.changed(states.RunningState(), waits)
    for second in range(100):
        now[0] = float(second)
        watch.changed(waits, waits)
    assert [record.message[:31] for record in caplog.records] == ["waiting for room for 2 x cpus 1"] * 3
    now[0] = 100.0
    with pytest.raises(InputError, match="no room for 2 x cpus 1 for 100 s"):
        watch.changed(waits, waits)
    watch.changed(waits, states.RunningState())
    watch.changed(states.RunningState(), waits)
    watch.changed(waits, waits)


@pytest.fixture
def hiding() -> Iterator[None]:
    """The filters that a process gets with the callbacks."""
    _, watching = controller_callbacks.controller_callbacks(Needs(1), 2)
    sent = cloudpickle.dumps(watching)
    modules = (callback_manager, controller, autoscaling_coordinator_client)
    before = {one: [*one.logger.filters] for one in modules}
    hide_known_errors.cache_clear()
    cloudpickle.loads(sent)
    yield
    for one, filters in before.items():
        one.logger.filters[:] = filters


def tell(module: Any, *errors: Exception) -> None:
    for error in errors:
        try:
            raise error
        except Exception:
            module.logger.exception("raised")


@pytest.mark.parametrize("module", [callback_manager, controller])
def test_errors_that_are_told_in_a_line_are_no_tracebacks(
    module: Any, hiding: None, caplog: pytest.LogCaptureFixture
) -> None:
    tell(module, InputError("a", "b"), WorkerGroupStartupTimeoutError(2), ValueError("news"))
    module.logger.warning("without an error")
    assert [record.exc_info and record.exc_info[0] for record in caplog.records] == [ValueError, None]


def test_a_request_that_ray_makes_again_is_a_line(hiding: None, caplog: pytest.LogCaptureFixture) -> None:
    tell(autoscaling_coordinator_client, GetTimeoutError("busy"), ValueError("news"))
    assert [record.exc_info and record.exc_info[0] for record in caplog.records] == [None, ValueError]
