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

from rayner.runtime.tracking import LOG, Record, Tracker

SECONDS_BETWEEN_LOOKS = 0.5

log = logging.getLogger(__name__)


def watcher() -> Tracker:
    """A bar where standard error is a terminal, otherwise log lines."""
    return Bar() if sys.stderr.isatty() else Lines()


class Lines:
    """A log line a record."""

    def write(self, record: Record) -> None:
        """Log the record."""
        log.info("%s", line_of(record))

    def close(self) -> None:
        """Nothing is open."""


class Bar:
    """A progress bar with evaluations above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("training", total=None)
        self._bar.start()

    def write(self, record: Record) -> None:
        """Move the bar, or print an evaluation."""
        if "metrics" in record:
            self._bar.console.print(line_of(record), highlight=False)
        else:
            text = f"epoch {record['epoch']} loss {record['loss']:.4f}"
            self._bar.update(self._task, total=record["steps"], completed=record["step"], description=text)

    def close(self) -> None:
        """Take the bar away."""
        self._bar.stop()


def line_of(record: Record) -> str:
    """The record on one line."""
    if "metrics" in record:
        numbers = {k: v for k, v in record["metrics"].items() if isinstance(v, float)}
        scores = "  ".join(f"{name} {100 * value:.2f}" for name, value in numbers.items())
        return f"step {record['step']}  epoch {record['epoch']}  dev  {scores}"
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
        if path.exists():
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
