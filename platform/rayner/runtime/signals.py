"""What a command does where it is told to end."""

from __future__ import annotations

import signal
import threading


def terminated_as_interrupted(over_others: bool = False) -> None:
    """SIGTERM (of `docker stop`, `ray job stop`, systemd, Kubernetes) ends a command in the way of Ctrl-C:
    what it has done is kept.

    The first process of a container would ignore it.

    Args:
        over_others: also where something handles it already.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if over_others or signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
