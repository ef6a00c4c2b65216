"""Warnings that several readings of the same files would repeat."""

from __future__ import annotations

import logging
from functools import cache


@cache
def warn_once(log: logging.Logger, message: str) -> None:
    """Warn, unless this process has said the same before."""
    log.warning(message)
