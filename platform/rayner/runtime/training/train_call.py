"""What one call of `train` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rayner.config import BaseRecipe
from rayner.files.publishing import Publication
from rayner.runtime.tracking import Tracker
from rayner.tasks.encoder_task import EncoderTask


@dataclass(frozen=True, slots=True)
class Launch:
    """A training as the driver sees it, in this process or on Ray Train workers.

    `out` is the run's folder here, which `publication` puts in place where the run is at a URI. With 0
    `workers` it trains in this process. `watch` is shown what happens. The run pauses after `until` epochs,
    to be gone on with.
    """

    task: EncoderTask[Any]
    out: Path
    workers: int
    watch: Tracker
    until: int | None = None
    publication: Publication | None = None

    @property
    def recipe(self) -> BaseRecipe:
        """That of the task."""
        return self.task.recipe
