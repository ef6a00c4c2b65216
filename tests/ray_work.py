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


def sleep(seconds: float) -> None:
    """As `time.sleep`, which a task that is cancelled would go on with to its end."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.05)
