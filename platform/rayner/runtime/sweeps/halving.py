"""Successive halving: all trials train up to a rung, and only the best of them continue to the next.

Source: Jamieson and Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization, 2016.
ASHA compares a trial with those before it, so that no node ever waits; here each is compared with all, which
stops more of them, and neither their order nor how many run concurrently changes the outcome. What is chosen
follows from the trials' own files alone, so that a sweep that was killed chooses the same again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.sweep_settings import Objective
from rayner.runtime.sweeps.trial_places import remove_last
from rayner.runtime.sweeps.trials import TRIAL, Trial, read_trial, write_outcome

Launch = Callable[[Sequence[Mapping[str, Any]], int | None], None]

log = logging.getLogger(__name__)


def successive_halving(plan: Plan, planned: Sequence[Mapping[str, Any]], epochs: int, launch: Launch) -> None:
    """Train all trials up to the first rung, the best of them up to the second, and so on to the end.

    Args:
        epochs: of the longest trial, over all its runs.
        launch: trains trials with these settings until they have gone through so many epochs, None for all.
    """
    settings = plan.settings
    going = list(planned)
    for rung in rungs_of(settings.grace_period, settings.reduction_factor, epochs):
        _launch_unfinished(plan, going, rung, launch)
        trials = [read_trial(plan, plan.folder(one)) for one in going]
        best = best_at(trials, rung, settings.reduction_factor, settings.objectives[0])
        chosen = {trial.name for trial in best}
        for trial in trials:
            if trial.name not in chosen and trial.state == "paused":
                write_outcome(plan.folder(trial.settings), "stopped")
                remove_last(plan, trial.name)
        going = [trial.settings for trial in trials if trial.name in chosen and trial.state != "failed"]
        log.info("after %d of %d epochs %d of %d trials continue", rung, epochs, len(best), len(trials))
    _launch_unfinished(plan, going, None, launch)


def rungs_of(grace_period: int, reduction_factor: int, epochs: int) -> list[int]:
    """The epochs before the end after which trials are compared: grace period times powers of the factor."""
    rungs = []
    rung = grace_period
    while rung < epochs:
        rungs.append(rung)
        rung *= reduction_factor
    return rungs


def best_at(trials: Sequence[Trial], rung: int, reduction_factor: int, objective: Objective) -> list[Trial]:
    """The best of the trials that reached a rung, by their scores there: one in `reduction_factor` of them.

    At least one. A trial that ended before the rung takes part with its last score, one that went beyond with
    its score at the rung, so that later training changes nothing. Of equal scores the first is better. One
    that was stopped here counts, and is not chosen: of those that were, one may have begun again since.
    """
    sign = -1 if objective.mode == "max" else 1

    def rank(trial: Trial) -> float:
        scores = [report[objective.metric] for report in trial.reports if report["epochs"] <= rung]
        score = scores[-1] if scores else math.nan
        return math.inf if math.isnan(score) else sign * score

    reached = [t for t in trials if t.last.get("epochs", 0) >= rung or t.state == "finished"]
    able = [t for t in reached if t.state != "stopped" or t.last["epochs"] >= rung * reduction_factor]
    return sorted(able, key=rank)[: max(1, len(reached) // reduction_factor)]


def _launch_unfinished(
    plan: Plan, going: Sequence[Mapping[str, Any]], rung: int | None, launch: Launch
) -> None:
    unfinished = [settings for settings in going if not _has_reached(plan, settings, rung)]
    if unfinished:
        launch(unfinished, rung)


def _has_reached(plan: Plan, settings: Mapping[str, Any], rung: int | None) -> bool:
    """Whether a trial has nothing left to train up to a rung, None for the end."""
    folder = plan.folder(settings)
    if not (folder / TRIAL).exists():
        return False
    trial = read_trial(plan, folder)
    if trial.state == "paused":
        return rung is not None and trial.last.get("epochs", 0) >= rung
    return trial.state not in ("pending", "running")
