"""How far an annotation has come: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rayner.counted import counted
from rayner.runtime.annotation.block import Done
from rayner.runtime.progress import SECONDS_BETWEEN_LINES

log = logging.getLogger(__name__)


class Tick(NamedTuple):
    """A block that is done, and the bytes of the input that were read for it."""

    done: Done
    consumed: float


class Speed:
    """Words, and the seconds from the first block's beginning to the last one's end: start-up is apart."""

    def __init__(self) -> None:
        self.began = time.time()
        self.documents = self.rejected = self.words = 0
        self._first, self._last = float("inf"), 0.0

    def add(self, done: Done) -> None:
        """Count a block."""
        self.documents += done.documents
        self.rejected += done.rejected
        self.words += done.words
        self._first, self._last = min(self._first, done.begun), max(self._last, done.ended)

    @property
    def startup_seconds(self) -> float:
        """Until the first block was begun."""
        return max(0.0, min(self._first, time.time()) - self.began)

    @property
    def seconds(self) -> float:
        """Since then, until the last block was done."""
        return max(0.0, self._last - self._first)

    @property
    def words_per_second(self) -> float:
        """After start-up; 0 where nothing was done."""
        return self.words / self.seconds if self.seconds else 0.0


def follow(ticks: Iterable[Tick], total: float, done: float, speed: Speed) -> None:
    """Take all blocks as they get done, and show how far they are.

    Args:
        total: bytes of the input.
        done: those that an earlier run has read.
    """
    show = _bar if sys.stderr.isatty() else _lines
    for _ in show(_counted(ticks, speed), total, done, speed):
        pass


def _counted(ticks: Iterable[Tick], speed: Speed) -> Iterator[float]:
    for tick in ticks:
        speed.add(tick.done)
        yield tick.consumed


def _lines(ticks: Iterable[float], total: float, done: float, speed: Speed) -> Iterator[float]:
    last = time.monotonic()
    for consumed in ticks:
        done += consumed
        yield consumed
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            log.info(
                "annotate: %d %% of the input, %s", 100 * min(1.0, done / max(total, 1)), _figures(speed)
            )


def _bar(ticks: Iterable[float], total: float, done: float, speed: Speed) -> Iterator[float]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.fields[figures]}"))
    with Progress("annotate", *columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=max(total, 1.0), completed=int(done), figures="starting")
        for consumed in ticks:
            yield consumed
            progress.update(task, advance=consumed, figures=_figures(speed))


def _figures(speed: Speed) -> str:
    rejected = f", {speed.rejected:,} rejected" if speed.rejected else ""
    return f"{counted(speed.documents, 'document')}{rejected}, {speed.words_per_second:,.0f} words/s"
