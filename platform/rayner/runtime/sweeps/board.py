"""What becomes of each trial: written down, and shown while the sweep runs."""

from __future__ import annotations

import logging
import math
import sys
from pathlib import Path
from typing import Any

from ray.tune import Callback

from rayner.runtime.sweeps.table import line_of, trials_table
from rayner.runtime.sweeps.trial import settings_of
from rayner.runtime.sweeps.trials import (
    OUTCOME,
    TRIAL,
    TRIALS,
    Plan,
    failures_of,
    is_finished,
    read_outcome,
    read_trial,
    read_trials,
    remove_last,
    write_json,
    write_outcome,
)

ROWS = 24
"""Rows of the live table: the trials that run, then the best."""

log = logging.getLogger(__name__)


class Board(Callback):
    """Writes down what becomes of each trial, and shows it."""

    def __init__(self, plan: Plan, trials: int) -> None:
        self._plan = plan
        self._trials = trials
        self._live: Any = None
        self._warned = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Give the trial its number and its folder; it no longer waits."""
        folder = self._folder(trial)
        self._number(folder, trial)
        outcome = read_outcome(folder)
        if outcome is not None and outcome["state"] == "waiting":
            (folder / OUTCOME).unlink()
        self._show()

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Show the score."""
        self._show()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Write down whether it was stopped early, or waits at a rung."""
        folder = self._folder(trial)
        if read_outcome(folder) is None:
            early = "waiting" if self._plan.settings.scheduler == "halving" else "stopped"
            write_outcome(folder, "finished" if is_finished(self._plan, folder) else early)
            if early == "stopped":
                remove_last(self._plan, folder)
        self._over(folder)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Write down why it failed, after all retries."""
        folder = self._folder(trial)
        # Its process may not even have started.
        self._number(folder, trial)
        if read_outcome(folder) is None:
            noted = failures_of(folder)
            write_outcome(folder, "failed", noted[-1]["error"] if noted else _cause(trial))
        self._over(folder)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Leave the last table on the terminal."""
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._live.stop()
            self._live = None

    def _folder(self, trial: Any) -> Path:
        return self._plan.folder(settings_of(self._plan, trial.config))

    def _number(self, folder: Path, trial: Any) -> None:
        if not (folder / TRIAL).exists():
            number = 1 + len(list((self._plan.out / TRIALS).glob(f"*/{TRIAL}")))
            settings = settings_of(self._plan, trial.config)
            write_json(folder / TRIAL, {"number": number, "settings": settings})

    def _over(self, folder: Path) -> None:
        trial = read_trial(self._plan, folder)
        missing = [
            o.metric for o in self._plan.settings.objectives if math.isnan(trial.last.get(o.metric, 0))
        ]
        if missing and not self._warned:
            self._warned = True
            cure = "if dev has nothing to compute it from, no trial will: stop, and name another --metric"
            log.warning("trial %d has no %s; %s", trial.number, " and no ".join(missing), cure)
        if not sys.stderr.isatty():
            log.info("%s", line_of(trial, self._plan, self._trials))
        self._show()

    def _show(self) -> None:
        if not sys.stderr.isatty():
            return
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Any:
        return trials_table(read_trials(self._plan), self._plan, ROWS)


def show_cursor() -> None:
    """Give the terminal its cursor back, which a table that Ctrl-C cut short still hides."""
    from rich.console import Console

    Console(stderr=True).show_cursor()


def _cause(trial: Any) -> str:
    error = trial.get_error()
    return " ".join(str(error).split())[:500] if error is not None else "the process of the trial died"
