"""A run as people see it: a bar on a terminal, lines in a log, from the records of the run."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rayner.files.run_checkpoints import LOG
from rayner.metrics.shown import shown_score
from rayner.runtime.tracking import Record, Tracker
from rayner.tasks.base import Metric

if TYPE_CHECKING:
    from rich.progress import TaskID

SECONDS_BETWEEN_LOOKS = 0.5

log = logging.getLogger(__name__)


def watcher(metric: Metric) -> Tracker:
    """A bar where standard error is a terminal, with that metric of dev; otherwise log lines."""
    return Bar(metric) if sys.stderr.isatty() else Lines()


class Lines:
    """A log line a record."""

    def write(self, record: Record) -> None:
        """Log the record."""
        log.info("%s", line_of(record))

    def close(self) -> None:
        """Nothing is open."""


class Bar:
    """A progress bar with the loss, a metric of the last evaluation, words a second and the time left.

    The parts of the loss and the other metrics are in the log and in the plots of the report.
    """

    def __init__(self, metric: Metric) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (BarColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task: TaskID | None = None
        self._metric = metric
        self._steps = self._dev = self._speed = ""

    def write(self, record: Record) -> None:
        """Move the bar; it is shown from the first record on, after the bars of what comes before."""
        if self._task is None:
            self._task = self._bar.add_task("", total=None)
            self._bar.start()
        if "metrics" in record:
            value = record["metrics"].get(self._metric.name)
            if isinstance(value, float):
                shown = f"{100 * value:.1f}" if self._metric.mode == "max" else f"{value:.4f}"
                self._dev = f"  dev {self._metric.name} {shown}"
        else:
            left = timedelta(seconds=round(record["eta"]))
            self._steps = f"epoch {record['epoch']}  loss {record['loss']:.4f}"
            self._speed = f"  {record['words_per_second']:,.0f} words/s  {left} left"
            self._bar.update(self._task, total=record["steps"], completed=record["step"])
        self._bar.update(self._task, description=self._steps + self._dev + self._speed)

    def close(self) -> None:
        """Take the bar away."""
        if self._task is not None:
            self._bar.stop()


def line_of(record: Record) -> str:
    """The record on one line."""
    if "metrics" in record:
        numbers = {k: v for k, v in record["metrics"].items() if isinstance(v, float)}
        scores = "  ".join(f"{name} {shown_score(name, value, 2)}" for name, value in numbers.items())
        return f"step {record['step']}  epoch {record['epoch']:.4g}  dev  {scores}"
    parts = " ".join(f"{name} {value:.4f}" for name, value in record["parts"].items())
    memory = f"  {record['gpu_memory'] / 2**30:.1f} GiB" if "gpu_memory" in record else ""
    return (
        f"step {record['step']}/{record['steps']}  epoch {record['epoch']}  loss {record['loss']:.4f} "
        f"({parts})  lr {record['learning_rate']:.2e}  {record['words_per_second']:,.0f} words/s  "
        f"padding {100 * record['padding']:.1f} %{memory}  {timedelta(seconds=round(record['eta']))} left"
    )


@contextlib.contextmanager
def watched(out: Path, shown: Tracker) -> Iterator[None]:
    """Show what workers elsewhere add to `OUT/log.jsonl` meanwhile."""
    done = threading.Event()
    thread = threading.Thread(target=_follow, args=(out / LOG, shown, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        shown.close()


def _follow(path: Path, shown: Tracker, done: threading.Event) -> None:
    seen = path.stat().st_size if path.exists() else 0
    while True:
        last_look = done.wait(SECONDS_BETWEEN_LOOKS)
        # It comes with the first step, and goes for a moment where it is fetched anew.
        with contextlib.suppress(FileNotFoundError):
            # A resumed run rewrites the file without the steps that it takes again.
            seen = min(seen, path.stat().st_size)
            with path.open("rb") as file:
                file.seek(seen)
                added = file.read()
            complete = added[: added.rfind(b"\n") + 1]
            seen += len(complete)
            for line in complete.splitlines():
                with contextlib.suppress(ValueError, KeyError):
                    shown.write(json.loads(line))
        if last_look:
            return
