"""Waiting where object storage fails, before the next try."""

from __future__ import annotations

import logging
import time

from rayner.errors import InputError, RaynerError

TRIES = 4
PAUSE = 0.5
"""Seconds before the second try; twice as long before each further one."""

log = logging.getLogger(__name__)


def wait(failure: RaynerError, attempt: int) -> None:
    """Say what failed and wait before the next try, after each one longer.

    Raises:
        InputError, StorageError: the failure, after the last try or where none would help.
    """
    if attempt == TRIES or isinstance(failure, InputError):
        raise failure from None
    log.warning("%s (try %d of %d)", failure, attempt, TRIES)
    time.sleep(PAUSE * 2 ** (attempt - 1))
