"""What a run adds to the controller of Ray Train: it ends what would fail again, a wait for room has a bound,
and what has a line of its own is not told as a traceback, too."""

from __future__ import annotations

import logging
import math
import time
from functools import cache
from typing import Any

from rayner.errors import RaynerError, StorageError
from rayner.runtime.elsewhere import (
    SECONDS_BETWEEN_LINES,
    Needs,
    cluster_room,
    seconds_to_wait,
    waited_too_long,
)
from rayner.runtime.training.failures import WorkerFailedError

_WITHOUT_WORKERS = frozenset({"InitializingState", "SchedulingState", "ReschedulingState", "RestartingState"})
_HINT = "Ask for fewer or smaller workers in the recipe's scaling or with --workers, or add nodes."

log = logging.getLogger(__name__)


def controller_callbacks(needs: Needs, workers: int) -> list[Any]:
    """Callbacks for `RunConfig`, which the controller's process gets.

    Args:
        needs: of each worker.
        workers: how many must have room at once.
    """
    from ray.train import UserCallback
    from ray.train.v2._internal.execution.callback import ControllerCallback

    class EndsForGood(UserCallback):
        """Ends the run at once where starting the workers again would not help: Ray would start them."""

        def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
            """Raise what a worker raised: the controller takes no error of its own for a passing one."""
            for error in worker_exceptions.values():
                if lasts(cause := getattr(error, "_base_exc", error)):
                    raise cause

    class WatchesRoom(ControllerCallback):
        """Ray Train tries without end to start workers that have no room."""

        def __init__(self, watch: RoomWatch) -> None:
            self.watch = watch

        def __setstate__(self, state: dict[str, Any]) -> None:
            """Called in each process that gets it; in the controller's, before it asks for anything."""
            self.__dict__.update(state)
            hide_known_errors()

        def after_controller_state_update(self, previous_state: Any, current_state: Any) -> None:
            """Called with the controller's states."""
            self.watch.changed(previous_state, current_state)

    return [EndsForGood(), WatchesRoom(RoomWatch(needs, workers))]


def lasts(error: BaseException) -> bool:
    """Whether workers that start again would fail of it again."""
    return isinstance(error, RaynerError) and not isinstance(error, (WorkerFailedError, StorageError))


class RoomWatch:
    """Follows the states of the controller. The bound is that of the driver's environment, where it is made.

    Args:
        needs: of each worker.
        workers: how many must have room at once.
    """

    def __init__(self, needs: Needs, workers: int) -> None:
        self._wanted, self._missing = needs.in_words(workers)
        self._bound = seconds_to_wait()
        self._since = self._told = -math.inf

    def changed(self, before: Any, now: Any) -> None:
        """Called with the states. That workers did not start is told each time, which is each minute, or as
        often as RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S says; so is that an elastic run has too few.

        Raises:
            InputError: they have had no room for `RAYNER_WAIT_SECONDS`, at the start or since they ran.
        """
        was, becomes, clock = type(before).__name__, type(now).__name__, time.monotonic()
        if becomes not in _WITHOUT_WORKERS:
            self._since = -math.inf
        elif self._since < 0:
            self._since = self._told = clock
        # An elastic run below its least workers stays in the state in which they were lost.
        elif (was, becomes) == ("SchedulingState", "ReschedulingState") or was == becomes:
            if clock - self._since >= self._bound:
                raise waited_too_long(self._missing, self._bound)
            if was != becomes or clock - self._told >= SECONDS_BETWEEN_LINES:
                self._told = clock
                log.warning("waiting for %s; %s. %s", self._wanted, cluster_room(), _HINT)


@cache
def hide_known_errors() -> None:
    """Keep from the log of the controller's process the tracebacks of errors that are told in a line: what
    the driver raises, that workers did not start in time, and that the autoscaler of a busy machine took too
    long to note what a run asks for, after which Ray asks again."""
    from ray.exceptions import GetTimeoutError
    from ray.train.v2._internal.exceptions import WorkerGroupStartupTimeoutError
    from ray.train.v2._internal.execution import callback_manager
    from ray.train.v2._internal.execution.controller import controller
    from ray.train.v2._internal.execution.scaling_policy import autoscaling_coordinator_client

    def is_news(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, (RaynerError, WorkerGroupStartupTimeoutError))

    def is_told(record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], GetTimeoutError):
            record.exc_info = None
        return True

    for module in (callback_manager, controller):
        module.logger.addFilter(is_news)
    autoscaling_coordinator_client.logger.addFilter(is_told)
