"""Faults of a run: no document is to blame for them, so they are tried again, and then end the run."""

from __future__ import annotations

import logging
import time

from rayner.errors import RaynerError, first_line

TRIES = 4
"""How often in a row a file is read without success before the run fails."""
PAUSE = 1.0
"""Seconds before the second try; twice as long before each further one."""

log = logging.getLogger(__name__)


class ReadFault(RaynerError):
    """A file could not be read for a reason that does not lie in its content."""


class WorkerFault(RaynerError):
    """A worker cannot go on, whatever document it is given: no memory, or a device that failed."""


def lost_errors() -> tuple[type[Exception], ...]:
    """What Ray raises where a process or a node is lost; one that is killed for memory is no dead actor."""
    from ray.exceptions import (
        LocalRayletDiedError,
        NodeDiedError,
        ObjectLostError,
        OutOfMemoryError,
        RayActorError,
        WorkerCrashedError,
    )

    return (
        *(LocalRayletDiedError, NodeDiedError, ObjectLostError, OutOfMemoryError),
        *(RayActorError, WorkerCrashedError),
    )


def worker_failed(who: str, error: BaseException, kept: str) -> RaynerError:
    """That an actor of Ray Data failed in a way that is none of ours, by the last line of what it says."""
    cause = str(getattr(error, "cause", None) or error).strip().split("\n")[-1]
    return RaynerError(f"{who}: a worker failed ({cause[:300]}); {kept}: run the same command again")


def read_fault(where: str, error: BaseException, kept: bool = True) -> ReadFault:
    """The fault of a file, from the error that was raised when it was read.

    Args:
        kept: what the run did so far is taken up by the next one.
    """
    reason = getattr(error, "strerror", None) or first_line(error)
    done = "what is done is kept: " if kept else ""
    return ReadFault(f"{where}: cannot be read ({reason}); {done}correct that, run the same command again")


def pause(failures: int, fault: RaynerError) -> None:
    """Wait before the next try.

    Args:
        failures: how often in a row it failed.

    Raises:
        RaynerError: the fault, where it failed too often.
    """
    if failures >= TRIES:
        raise fault
    log.warning("%s (try %d of %d)", fault, failures, TRIES)
    time.sleep(PAUSE * 2 ** (failures - 1))
