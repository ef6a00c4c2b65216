"""A sweep as metrics of Ray's, for its dashboard, Prometheus and docs/grafana/rayner.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import get_args

from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.trials import State, Trial, read_trials

TRIALS, BEST, FAILURES = "rayner_sweep_trials", "rayner_sweep_best", "rayner_sweep_failures"


def best_scores(trials: Collection[Trial], plan: Plan) -> dict[str, float]:
    """The objectives of the trial that is best so far, also of one that still runs; none without a report."""
    objective = plan.settings.objectives[0]
    scores = {
        trial.name: value
        for trial in trials
        if trial.state != "failed"
        and (value := trial.last.get(objective.metric)) is not None
        and value == value
    }
    if not scores:
        return {}
    name = (max if objective.mode == "max" else min)(scores, key=lambda name: scores[name])
    best = next(trial for trial in trials if trial.name == name)
    found = {o.metric: best.last.get(o.metric) for o in plan.settings.objectives}
    return {name: value for name, value in found.items() if value is not None and value == value}


class Gauges:
    """Trials by state, the best scores, and how often trials failed."""

    def __init__(self, plan: Plan) -> None:
        from ray.util.metrics import Gauge

        self._plan, self._sweep = plan, plan.out.name
        self._trials = {trial.name: trial for trial in read_trials(plan)}
        self._states = Gauge(TRIALS, "The trials of a sweep by state.", ("sweep", "state"))
        self._best = Gauge(BEST, "The objectives of a sweep's best trial so far.", ("sweep", "metric"))
        self._failures = Gauge(FAILURES, "Attempts of trials that failed.", ("sweep",))

    def start(self, trial: Trial) -> None:
        """Count it."""
        self.update(trial)

    def update(self, trial: Trial) -> None:
        """Count it as it is now."""
        self._trials[trial.name] = trial
        states = Counter(trial.state for trial in self._trials.values())
        for state in get_args(State):
            self._states.set(states[state], {"sweep": self._sweep, "state": state})
        for metric, value in best_scores(self._trials.values(), self._plan).items():
            self._best.set(value, {"sweep": self._sweep, "metric": metric})
        self._failures.set(sum(one.failures for one in self._trials.values()), {"sweep": self._sweep})

    def end(self, trial: Trial) -> None:
        """Count it as it ended."""
        self.update(trial)
