"""A locust user that sends bodies from a file without pause; `benchmarks.serve_load` starts it.

SERVE_BODIES names a JSON list of bodies, SERVE_PATH the endpoint, SERVE_TIMES the file for what came of it.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

from locust import FastHttpUser, constant, events, task

BODIES = [json.dumps(body) for body in json.loads(Path(os.environ["SERVE_BODIES"]).read_text("utf-8"))]
PATH = os.environ["SERVE_PATH"]
WARM_UP = float(os.environ["SERVE_WARM_UP"])
HEADERS = {"Content-Type": "application/json"}
_turn = itertools.count()
_times: list[tuple[float, float]] = []
_failures: list[str] = []
_began = time.perf_counter()


class Client(FastHttpUser):
    """Asks again as soon as it has its answer."""

    wait_time = constant(0)

    @task
    def ask(self) -> None:
        """The next body."""
        self.client.post(PATH, data=BODIES[next(_turn) % len(BODIES)], headers=HEADERS)


@events.request.add_listener
def _note(response_time: float, exception: BaseException | None, response: Any, **_: Any) -> None:
    now = time.perf_counter()
    if exception is not None:
        _failures.append(repr(exception))
    elif now - _began > WARM_UP:
        # locust rounds what it reports.
        _times.append((now, response_time))


@events.quitting.add_listener
def _write(**_: Any) -> None:
    seconds = _times[-1][0] - _began - WARM_UP if _times else 0.0
    found = {"seconds": seconds, "milliseconds": [ms for _, ms in _times], "failures": _failures}
    Path(os.environ["SERVE_TIMES"]).write_text(json.dumps(found), "utf-8")
