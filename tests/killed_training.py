"""A training that is killed at a step, in this process; the same one goes on from its last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rayner.runtime.training import loop
from rayner.tasks.base import Progress


class Killed(BaseException):
    """In place of a kill -9: nothing catches it."""


@contextmanager
def killed_at(number: int) -> Iterator[None]:
    """Trainings within it end before the step of this number, counted from 0."""
    take_step = loop.take_step

    def dying(learner: Any, step: Any, progress: Progress) -> None:
        if progress.step == number:
            raise Killed
        take_step(learner, step, progress)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "take_step", dying)
        with pytest.raises(Killed):
            yield
