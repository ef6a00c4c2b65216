"""Whose turn it is in a population of more trials than the cluster has room for."""

from __future__ import annotations

from typing import Any

from ray.tune.schedulers import PopulationBasedTraining


class FairPopulation(PopulationBasedTraining):
    """Ray Tune's scheduler, but a trial that goes on from another's checkpoint does not jump the queue."""

    def _exploit(self, tune_controller: Any, trial: Any, trial_to_clone: Any) -> None:
        """Keep the trial's own time, by which turns are given.

        Ray Tune gives it the time of the other. Where that one waits, the trial that fell behind would take
        its turn, fall behind what it was copied from, and be copied again, many times over.
        """
        state = self._trial_state[trial]
        reached = state.last_train_time
        super()._exploit(tune_controller, trial, trial_to_clone)
        state.last_train_time = max(state.last_train_time, reached)
