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
