"""Messages that several readings of the same files, or of the same weights, would repeat."""

from __future__ import annotations

import logging
from collections.abc import Iterable

_said: set[str] = set()


def warn_once(log: logging.Logger, message: str, level: int = logging.WARNING) -> None:
    """Log, unless this process has said the same before."""
    if message not in _said:
        _said.add(message)
        log.log(level, message)


def said() -> frozenset[str]:
    """What this process has said so far."""
    return frozenset(_said)


def leave_unsaid(messages: Iterable[str]) -> None:
    """Say none of these in this process: another one has, to the same reader."""
    _said.update(messages)
