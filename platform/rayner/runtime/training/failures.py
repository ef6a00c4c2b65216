"""How a worker that fails tells the others, so that none waits for it in a collective.

It leaves word in the store at which the workers met, which takes no collective, and then the process group:
gloo closes its connections, and whoever waits for this worker gets an error, looks into the store and raises
what it finds there. NCCL does not end a collective so; there, Ray Train ends them (`ray_workers.py`).
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import traceback
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from rayner.errors import InputError, RaynerError, StorageError

PATIENCE = timedelta(seconds=10)
"""How long a worker that ends waits for the others to have heard why."""

_KEY = "rayner/failure"


class GroupLostError(RuntimeError):
    """The process group is gone while the run goes on: a part of each step would be taken for the whole."""


class WorkerFailedError(RaynerError):
    """A worker failed of something other than a RaynerError: which one and why, raised on every worker."""


@dataclass(slots=True)
class Company:
    """The workers of a run as they met.

    `ended_together`: after `leave`, whether all workers have heard of the failure and end too.
    """

    store: Store | None
    rank: int
    workers: int
    ended_together: bool = False

    def leave(self, error: BaseException) -> BaseException:
        """Tell the others of an error, unless one of them failed first, and leave the process group.

        Returns:
            What to raise: the error itself, or, where it may be the consequence of another's or does not say
            whose it is, what the worker that failed first has left word of.
        """
        if self.store is None:
            self.ended_together = True
            return error
        found = None
        # Without its store, nobody can be told or asked.
        with contextlib.suppress(RuntimeError):
            self.store.set_timeout(PATIENCE)
            found = self._first(error)
        if dist.is_initialized() and dist.get_backend() == "gloo":
            _disconnect()
        if found is not None:
            with contextlib.suppress(RuntimeError):
                self.store.set(f"{_KEY}/{self.rank}", "heard")
                self.store.wait([f"{_KEY}/{rank}" for rank in range(self.workers)], PATIENCE)
                self.ended_together = True
        if _is_loss(error):
            return found or self._lost(error)
        if found is None or isinstance(error, RaynerError) or not isinstance(error, Exception):
            return error
        return found

    def seen_by_others(self, error: BaseException) -> RaynerError:
        """The error of this worker as the others raise it."""
        place = f"on worker {self.rank} of {self.workers}"
        if isinstance(error, WorkerFailedError):
            return error
        if isinstance(error, (InputError, StorageError)):
            return type(error)(error.where, f"{error.what} ({place})", error.hint)
        if isinstance(error, RaynerError):
            return RaynerError(f"{error} ({place})")
        what = traceback.format_exception_only(error)[-1].strip()
        return WorkerFailedError(f"worker {self.rank} of {self.workers} failed: {what}")

    def _first(self, error: BaseException) -> RaynerError | None:
        """What the worker that failed first has left word of, perhaps this one; None if none did."""
        assert self.store is not None
        if _is_loss(error):
            return _read(self.store.get(_KEY)) if self.store.check([_KEY]) else None
        mine = pickle.dumps(self.seen_by_others(error)).hex()
        return _read(self.store.compare_set(_KEY, "", mine))

    def _lost(self, error: BaseException) -> BaseException:
        if isinstance(error, GroupLostError):
            return error
        why = " ".join(str(error).split())
        return GroupLostError(f"worker {self.rank} of {self.workers} lost the others ({why})")


def company() -> Company:
    """The workers that there are now."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return Company(None, 0, 1)
    store = dist.distributed_c10d._get_default_store()
    return Company(store, dist.get_rank(), dist.get_world_size())


def _disconnect() -> None:
    """Leave the process group, and close its connections, which only the last reference to it does."""
    group, functions = dist.group.WORLD, sys.modules.get("torch.distributed.nn.functional")
    # Where they were imported (an optimizer does) after the group was made, it is their default argument.
    for function in vars(functions).values() if functions else ():
        defaults = getattr(function, "__defaults__", None) or ()
        if any(value is group for value in defaults):
            function.__defaults__ = tuple(None if value is group else value for value in defaults)
    dist.destroy_process_group()


def _read(text: bytes) -> RaynerError:
    return pickle.loads(bytes.fromhex(text.decode()))


def _is_loss(error: BaseException) -> bool:
    """Whether the error is that of a collective, and so perhaps another worker's."""
    if isinstance(error, (GroupLostError, dist.DistError)):
        return True
    # gloo raises plain RuntimeErrors.
    return type(error) is RuntimeError and "gloo" in str(error)
