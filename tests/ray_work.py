"""What tests give to Ray's workers: these import the module that it is in, and this one imports nothing."""

from __future__ import annotations

import os
import time
from typing import Any


class Holder:
    """An actor that holds what it was given."""

    def started(self) -> None:
        """Answers when it has it."""


def end(part: Any) -> None:
    """The end of the process that works on a part."""
    os._exit(1)


def hold(gate: str) -> None:
    """Work until the file is there: a task that is cancelled before it has begun may begin all the same."""
    while not os.path.exists(gate):
        time.sleep(0.05)


class Gated:
    """The change of a conversion that changes nothing, and of which documents of a group wait for a file.

    Which machines wait, and for which driver, is told by `waits-*` in RAYNER_LOCAL.
    """

    def __init__(self, gate: str) -> None:
        self.gate = gate

    def __call__(self, document: Any) -> Any:
        if document.group and not os.path.exists(self.gate):
            import ray

            job = ray.get_runtime_context().get_job_id()
            open(os.path.join(os.environ["RAYNER_LOCAL"], f"waits-{job}"), "w").close()
            hold(self.gate)
        return document, {}
