"""What happens to each trial: recorded, tracked, and shown as a table while the sweep runs."""

from __future__ import annotations

import logging
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray import cloudpickle
from ray.tune import Callback, Stopper
from rich.console import Console
from rich.live import Live
from rich.table import Table

from rayner.errors import RaynerError
from rayner.metrics.shown import shown_score
from rayner.runtime.elsewhere import waiting
from rayner.runtime.faults import lost_errors
from rayner.runtime.shared_folder import NotSharedError
from rayner.runtime.sweeps.plan import TRIALS, Plan
from rayner.runtime.sweeps.sampling import short_names
from rayner.runtime.sweeps.sweep_settings import SECONDS
from rayner.runtime.sweeps.sweep_tracking import TrialTracker
from rayner.runtime.sweeps.trainable import failure_of, settings_of
from rayner.runtime.sweeps.trial_places import FailedAttempt, fetch_runs, remove_last
from rayner.runtime.sweeps.trials import (
    OUTCOME,
    TRIAL,
    Trial,
    failures_of,
    is_finished,
    rank_of,
    read_outcome,
    read_trial,
    read_trials,
    record_failure,
    write_json,
    write_outcome,
)

ROWS = 24
"""Rows of the live table: the trials that run, then the best."""

log = logging.getLogger(__name__)
_ERROR = re.compile(r"[\w.]+(?:Error|Exception|Exit|Interrupt)\b.*:")


class SweepCallback(Callback):
    """Records, tracks and shows what happens to each trial.

    `not_shared` is the error of a node that does not see the folder of the sweep, None while there is none.
    """

    def __init__(self, plan: Plan, trials: int, trackers: Sequence[TrialTracker] = ()) -> None:
        self.not_shared: NotSharedError | None = None
        self._plan = plan
        self._trials = trials
        self._trackers = trackers
        # Reading a trial takes milliseconds, and the table shows all of them at each event of any.
        self._known = {trial.name: trial for trial in read_trials(plan)}
        self._failures = {name: trial.failures for name, trial in self._known.items()}
        self._live: Live | None = None
        self._warned = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None, "_trackers": ()}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Give the trial its number and its folder; it is no longer paused."""
        folder = self._folder(trial)
        self._number(folder, trial)
        self._failures[folder.name] = len(failures_of(folder))
        outcome = read_outcome(folder)
        if outcome is not None and outcome["state"] == "paused":
            (folder / OUTCOME).unlink()
        known = self._read(folder)
        for tracker in self._trackers:
            tracker.start(known)
        self._show()

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Track and show the score."""
        folder = self._folder(trial)
        self._fetch(folder)
        known = self._read(folder)
        for tracker in self._trackers:
            tracker.update(known)
        self._show()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Record whether it was stopped early, or is paused at a rung."""
        folder = self._folder(trial)
        if not self._fetch(folder):
            return
        if read_outcome(folder) is None:
            over = is_finished(self._plan, folder)
            if self._plan.uri is not None and not over and self._is_of_another(folder, trial, trials):
                # It has ended because that one goes on.
                return
            early = "paused" if self._plan.settings.scheduler == "halving" else "stopped"
            write_outcome(folder, "finished" if over else early)
            if early == "stopped":
                remove_last(self._plan, folder.name)
        self._over(folder)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Record a failure after which the trial is restarted."""
        self._failed(trial, trials)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Record why it failed, after all restarts."""
        folder = self._failed(trial, trials)
        if folder is None or self.not_shared is not None:
            return
        if read_outcome(folder) is None:
            write_outcome(folder, "failed", failures_of(folder)[-1]["error"])
        self._over(folder)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Leave the last table on the terminal."""
        if self._live is not None:
            self._live.update(trials_table(read_trials(self._plan), self._plan), refresh=True)
            self._live.stop()
            self._live = None

    def _fetch(self, folder: Path) -> bool:
        """Whether it is known here how far a trial has come."""
        try:
            # One that is over reports again what is known.
            if read_outcome(folder) is None:
                fetch_runs(self._plan, folder.name, folder)
        except RaynerError as error:
            hint = "if it is over, the same command settles that when the storage works again"
            log.warning("how far %s has come is not seen: %s (%s)", folder.name, error, hint)
            return False
        return True

    def _folder(self, trial: Any) -> Path:
        return self._plan.folder(settings_of(self._plan, trial.config))

    def _is_of_another(self, folder: Path, trial: Any, trials: list[Any]) -> bool:
        """Whether another trial with the same settings trains in the folder: Optuna may propose them twice,
        and the second one waits for its lock in vain if the first takes long."""
        others = (one for one in trials if one is not trial and one.status == "RUNNING")
        return any(self._folder(one) == folder for one in others)

    def _number(self, folder: Path, trial: Any) -> None:
        """Give the trial its number and its folder; its process may fail before it has started."""
        if not (folder / TRIAL).exists():
            number = 1 + len(list((self._plan.out / TRIALS).glob(f"*/{TRIAL}")))
            settings = settings_of(self._plan, trial.config)
            write_json(folder / TRIAL, {"number": number, "settings": settings})

    def _failed(self, trial: Any, trials: list[Any]) -> Path | None:
        """Record a failure; the trial's folder, None where it is another trial's by now."""
        folder = self._folder(trial)
        if self._is_of_another(folder, trial, trials):
            return None
        self._number(folder, trial)
        self._record_failure(folder, trial)
        return folder

    def _record_failure(self, folder: Path, trial: Any) -> None:
        """Record a failure that the trial's process did not record itself: it died, or never started, or the
        trial is at a URI, where what it records is for its next attempt."""
        error = _raised(trial)
        if isinstance(error, NotSharedError):
            self.not_shared = error
            return
        before, now = self._failures.get(folder.name, 0), len(failures_of(folder))
        if now == before and read_outcome(folder) is None:
            raised = error if isinstance(error, Exception) and not isinstance(error, lost_errors()) else None
            if isinstance(error, FailedAttempt):
                record_failure(folder, *error.failure)
            elif self._plan.uri is not None and raised is not None:
                record_failure(folder, *failure_of(raised))
            else:
                record_failure(folder, _reason(trial), infrastructure=True)
            now += 1
        self._failures[folder.name] = now

    def _over(self, folder: Path) -> None:
        trial = self._read(folder)
        for tracker in self._trackers:
            tracker.end(trial)
        missing = [
            o.metric for o in self._plan.settings.objectives if math.isnan(trial.last.get(o.metric, 0))
        ]
        if missing and not self._warned:
            self._warned = True
            hint = "if dev has nothing to compute it from, no trial will: stop, and name another --metric"
            log.warning("trial %d has no %s; %s", trial.number, " and no ".join(missing), hint)
        if not sys.stderr.isatty():
            log.info("%s", line_of(trial, self._plan, self._trials))
        self._show()

    def _show(self) -> None:
        if not sys.stderr.isatty():
            return
        if self._live is None:
            self._live = Live(console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        trials = sorted(self._known.values(), key=lambda trial: trial.number)
        self._live.update(trials_table(trials, self._plan), refresh=True)

    def _read(self, folder: Path) -> Trial:
        trial = self._known[folder.name] = read_trial(self._plan, folder)
        return trial


class WaitsForRoom(Callback):
    """Says what a sweep waits for while none of its trials runs, which Ray Tune does without a bound.

    Args:
        each: Ray resources of a trial.
    """

    def __init__(self, each: Mapping[str, float]) -> None:
        shown = ", ".join(
            f"{value / 2**30:g} GiB of memory" if name == "memory" else f"{value:g} {name}"
            for name, value in each.items()
        )
        self._shown = f"a trial ({shown})"
        self._waiting: Iterator[float] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_waiting": None}

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Look whether any trial runs.

        Raises:
            InputError: none has run for `RAYNER_WAIT_SECONDS`, as no node has had room.
        """
        states = {trial.status for trial in trials}
        if "PENDING" not in states or "RUNNING" in states:
            self._waiting = None
            return
        if self._waiting is None:
            wanted = f"room for {self._shown}, or for its process to start"
            missing = f"no node has had room for {self._shown}"
            self._waiting = waiting(wanted, missing)
        next(self._waiting)


class NotSharedStopper(Stopper):
    """Stops a sweep once a trial has found that its node does not see the folder of the sweep."""

    def __init__(self, callback: SweepCallback) -> None:
        self._callback = callback

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Stops no trial by its result."""
        return False

    def stop_all(self) -> bool:
        """Whether a node was found."""
        return self._callback.not_shared is not None


def trials_table(trials: Sequence[Trial], plan: Plan, rows: int = ROWS) -> Table:
    """Trials that run first, then by their ranks; the rest in one line."""
    objectives = [objective.metric for objective in plan.settings.objectives]
    known = dict.fromkeys(key for trial in trials for key in trial.settings)
    keys = [key for key in known if key not in plan.fixed]
    names = short_names(keys)
    table = Table(title_justify="left", box=None, pad_edge=False)
    for name in ("trial", *names.values()):
        table.add_column(name, justify="right")
    columns = list(dict.fromkeys((*objectives, "epochs", SECONDS)))
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("state")
    # The end of its name, by which its folder is found.
    table.add_column("key")
    ordered = sorted(trials, key=lambda t: (t.state != "running", *rank_of(t, plan)))
    for trial in ordered[:rows]:
        numbers = [_shown(name, trial.last.get(name)) for name in columns]
        values = [str(trial.settings.get(key, "")) for key in keys]
        style = "bold" if trial.state == "running" else "dim" if trial.state in ("stopped", "failed") else ""
        table.add_row(str(trial.number), *values, *numbers, trial.state, trial.key, style=style)
    if len(ordered) > rows:
        table.caption = f"and {len(ordered) - rows} more"
    return table


def line_of(trial: Trial, plan: Plan, trials: int | None) -> str:
    """A trial on one line."""
    shown = trial.last
    scores = [f"{o.metric} {_shown(o.metric, shown.get(o.metric))}" for o in plan.settings.objectives]
    total = f"/{trials}" if trials else ""
    epochs = f"{shown.get('epochs', 0):.4g} epoch{'' if shown.get('epochs') == 1 else 's'}"
    if trial.spread is not None:
        first = plan.settings.objectives[0].metric
        scores[0] += f" (deviation {shown_score(first, trial.spread)})"
    end = f"{trial.state}: {trial.error}" if trial.error else trial.state
    return (
        f"trial {trial.number}{total}  {trial.name}  {'  '.join(scores)}  {epochs}  "
        f"{shown.get(SECONDS, 0):.0f} s  {end}"
    )


def show_cursor() -> None:
    """Give the terminal its cursor back, which a table that Ctrl-C cut short still hides."""
    Console(stderr=True).show_cursor()


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if name == "epochs" else shown_score(name, value)


def _raised(trial: Any) -> BaseException | None:
    """What the trial's process raised last, as Ray Tune on this machine has just written it down."""
    path = trial.pickled_error_file
    if path is None or not Path(path).exists():
        return None
    error = cloudpickle.loads(Path(path).read_bytes())
    return getattr(error, "cause", error)


def _reason(trial: Any) -> str:
    """Ray's reason why the process of a trial died."""
    path = trial.error_file
    text = Path(path).read_text(encoding="utf-8") if path is not None and Path(path).exists() else ""
    # The last line of a traceback that names an error, and what follows.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    begin = max((i for i, line in enumerate(lines) if _ERROR.match(line)), default=-1)
    words = " ".join(lines[begin:])
    return f"the process of the trial died: {words}"[:500] if words else "the process of the trial died"
