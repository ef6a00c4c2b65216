"""What tasks share whose items are read unit by unit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

from rayner.config import BaseRecipe
from rayner.tasks.base import ParallelMap, Unit
from rayner.tasks.encoder_task import EncoderTask

R = TypeVar("R", bound=BaseRecipe)


class UnitTask(EncoderTask[R]):
    """A task of which no process holds all items."""

    def items(self, split: Literal["train", "dev"]) -> Iterable[Any]:
        """The items of a split; none of `dev` where the recipe has no such split.

        Raises:
            InputError: as `units` and `read`.
        """
        return chain.from_iterable(map(self.read, self.units(split)))

    @abstractmethod
    def units(
        self, split: Literal["train", "dev"], mapper: ParallelMap = map, cache: Path | None = None
    ) -> Sequence[Unit]:
        """As `EncoderTask.units`."""

    @abstractmethod
    def read(self, unit: Unit) -> Iterable[Any]:
        """As `EncoderTask.read`."""
