"""The page of a sweep in which trials failed, or files are damaged."""

from __future__ import annotations

import pytest

from rayner.errors import InputError
from rayner.runtime.reports.report import report
from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.trials import State, write_outcome
from tests.runtime.sweeps.written_trials import write_trial

RATE = "training.learning_rate"


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (["failed", "pending"], "no trial has a score yet; wait for the first evaluation"),
        (["failed", "paused"], "no trial has a score yet; wait for the first evaluation"),
        (["failed", "failed"], "no trial has a score; trial 1 failed: boom 1; .*--resume-errored"),
        (["finished"], "no trial has f1; search with another --metric"),
    ],
)
def test_a_sweep_without_a_score_says_why(plan: Plan, states: list[State], message: str) -> None:
    for number, state in enumerate(states, 1):
        folder = write_trial(plan, number, {RATE: number / 10}, [])
        if state != "pending":
            write_outcome(folder, state, f"boom {number}" if state == "failed" else None)
    with pytest.raises(InputError, match=message):
        report(plan.out)


@pytest.mark.usefixtures("undrawn")
def test_a_trial_that_failed_is_not_the_best(plan: Plan) -> None:
    write_outcome(write_trial(plan, 1, {RATE: 0.1}, [[0.9]]), "failed", "boom")
    write_outcome(write_trial(plan, 2, {RATE: 0.2}, [[0.2]]), "stopped")
    assert '<span class="faint">trial 2' in report(plan.out).read_text()


@pytest.mark.parametrize(
    "name", ["trials/{}/outcome.json", "trials/{}/fold0-seed1/result.json", "result.json"]
)
def test_a_file_that_is_cut_short_is_named(plan: Plan, name: str) -> None:
    folder = write_trial(plan, 1, {RATE: 0.1}, [[0.1, 0.2, 0.3, 0.4]])
    (plan.out / name.format(folder.name)).write_text("")
    with pytest.raises(InputError, match=r"(outcome|result)\.json: is cut short or damaged; remove it, and"):
        report(plan.out)
