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
_PAUSE = 1.0
_turn = itertools.count()
_times: list[tuple[float, float]] = []
_seen = {"retried": 0, "failed": 0}
_began = time.perf_counter()


class Client(FastHttpUser):
    """Asks again as soon as it has its answer; what fails it repeats once, as docs/serve.md says."""

    wait_time = constant(0)

    @task
    def ask(self) -> None:
        """The next body."""
        body = BODIES[next(_turn) % len(BODIES)]
        begin = time.perf_counter()
        if not self._is_answered(body):
            _seen["retried"] += 1
            time.sleep(_PAUSE)
            if not self._is_answered(body):
                _seen["failed"] += 1
                return
        now = time.perf_counter()
        if now - _began > WARM_UP:
            _times.append((now, 1000 * (now - begin)))

    def _is_answered(self, body: str) -> bool:
        return self.client.post(PATH, data=body, headers=HEADERS).status_code == 200


@events.quitting.add_listener
def _write(**_: Any) -> None:
    seconds = _times[-1][0] - _began - WARM_UP if _times else 0.0
    found = {"seconds": seconds, "milliseconds": [ms for _, ms in _times], **_seen}
    Path(os.environ["SERVE_TIMES"]).write_text(json.dumps(found), "utf-8")
