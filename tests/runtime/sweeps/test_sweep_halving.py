"""Which trials continue at a rung, and what a kill leaves of successive halving."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rayner.runtime.sweeps.halving import best_at, rungs_of, successive_halving
from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.sweep_settings import Objective, objectives, sweep_settings
from rayner.runtime.sweeps.trials import Trial, is_finished, read_trials, write_json, write_outcome
from rayner.tasks.registry import parse_recipe
from tests.runtime.training.several_workers import tiny_recipe

EPOCHS = 9
SETTINGS = [{"training.learning_rate": 0.1 * number} for number in range(1, 10)]
CURVES = {
    settings["training.learning_rate"]: [0.1 * number + 0.01 * epoch for epoch in range(EPOCHS)]
    for number, settings in enumerate(SETTINGS, 1)
}
CURVES[SETTINGS[3]["training.learning_rate"]] = [0.95] + [0.96] * 8


class Killed(Exception):
    """In place of a kill -9."""


def trial(number: int, scores: Sequence[float], state: Any = "paused") -> Trial:
    reports = [{"f1": score, "epochs": float(epoch)} for epoch, score in enumerate(scores, 1)]
    return Trial(str(number), number, {}, state, None, 0, reports, scores[-1:])


def test_rungs_lie_before_the_end() -> None:
    assert rungs_of(1, 3, 6) == [1, 3]
    assert rungs_of(1, 3, 9) == [1, 3]
    assert rungs_of(2, 2, 9) == [2, 4, 8]
    assert rungs_of(4, 3, 4) == []


@pytest.mark.parametrize(
    ("scores", "rung", "reduction_factor", "best"),
    [
        ([[0.1], [0.3], [0.2]], 1, 3, [2]),
        ([[0.1], [0.3], [0.2], [0.4]], 1, 2, [4, 2]),
        # What a trial scored beyond the rung says nothing about it there.
        ([[0.1, 0.9], [0.3], [0.2]], 1, 3, [2]),
        # The first of equals; one at least; no number comes last.
        ([[0.3], [0.3]], 1, 3, [1]),
        ([[float("nan")], [0.0]], 1, 2, [2]),
        ([[float("nan")]], 1, 2, [1]),
        # Those that failed before the rung are not among those of which a part goes on.
        ([[0.9], [0.1, 0.1], [0.2, 0.2]], 2, 2, [3]),
        ([[0.9]], 2, 2, []),
    ],
)
def test_the_best_at_a_rung(
    scores: list[list[float]], rung: int, reduction_factor: int, best: list[int]
) -> None:
    trials = [trial(number, run) for number, run in enumerate(scores, 1)]
    chosen = best_at(trials, rung, reduction_factor, Objective(metric="f1"))
    assert [one.number for one in chosen] == best


def test_who_was_stopped_at_a_rung_takes_no_place_of_one_that_began_again() -> None:
    """The first won with 0.9, and has another seed since its loss was not finite."""
    trials = [trial(1, [0.1], "running"), trial(2, [0.5], "stopped")]
    assert [one.number for one in best_at(trials, 1, 2, Objective(metric="f1"))] == [1]
    later = [*trials, trial(3, [0.4, 0.4], "stopped"), trial(4, [0.3, 0.3])]
    assert [one.number for one in best_at(later, 1, 2, Objective(metric="f1"))] == [3, 4]


def test_less_may_be_better_and_a_short_trial_takes_part() -> None:
    trials = [trial(1, [3.0, 4.0]), trial(2, [2.0], "finished"), trial(3, [1.0], "failed")]
    assert [one.number for one in best_at(trials, 2, 2, Objective(metric="f1", mode="min"))] == [2]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger", epochs=EPOCHS), "recipe")
    settings = sweep_settings(
        objectives=objectives(["f1"], recipe),
        scheduler="halving",
        search="grid",
        grace_period=1,
        reduction_factor=3,
    )
    return Plan(recipe, settings, tmp_path / "sweep", tmp_path, {"seed1": {}}, tmp_path)


class Trainings:
    """What trains trials, by their curves; it dies after so many epochs."""

    def __init__(self, plan: Plan, lives: int = 1000) -> None:
        self.plan, self.left = plan, lives
        self.epochs = 0

    def __call__(self, planned: Sequence[Mapping[str, Any]], until: int | None) -> None:
        for settings in planned:
            folder = self.plan.folder(settings)
            if not (folder / "trial.json").exists():
                number = 1 + len(list(self.plan.out.glob("trials/*/trial.json")))
                write_json(folder / "trial.json", {"number": number, "settings": dict(settings)})
            (folder / "outcome.json").unlink(missing_ok=True)
            (folder / "seed1/last").mkdir(parents=True, exist_ok=True)
            log = folder / "seed1/log.jsonl"
            done = len(log.read_text().splitlines()) if log.exists() else 0
            for epoch in range(done, until or EPOCHS):
                if self.epochs == self.left:
                    raise Killed
                self.epochs += 1
                score = CURVES[settings["training.learning_rate"]][epoch]
                row = {"step": 10 * (epoch + 1), "epoch": epoch + 1, "metrics": {"f1": score}}
                with log.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            if until is None:
                write_json(folder / "seed1/result.json", {"steps": 10 * EPOCHS, "seconds": 1.0})
            write_outcome(folder, "finished" if is_finished(self.plan, folder) else "paused")


def states(plan: Plan) -> dict[float, tuple[str, float]]:
    return {t.settings["training.learning_rate"]: (t.state, t.last["epochs"]) for t in read_trials(plan)}


def test_a_third_continues_at_each_rung(plan: Plan) -> None:
    trainings = Trainings(plan)
    successive_halving(plan, SETTINGS, EPOCHS, trainings)
    reached = states(plan)
    assert [reached[one["training.learning_rate"]] for one in SETTINGS] == [
        *[("stopped", 1)] * 3,
        ("finished", 9),
        *[("stopped", 1)] * 3,
        *[("stopped", 3)] * 2,
    ]
    assert trainings.epochs == 9 * 1 + 3 * 2 + 1 * 6
    assert [path.parent.parent.name for path in plan.out.glob("trials/*/*/last")] == [
        plan.folder(SETTINGS[3]).name
    ]


@pytest.mark.parametrize("lives", [0, 4, 9, 10, 12, 15, 17, 20])
def test_a_kill_changes_nothing_of_what_is_chosen(plan: Plan, lives: int) -> None:
    cut, rest = Trainings(plan, lives), Trainings(plan)
    with pytest.raises(Killed):
        successive_halving(plan, SETTINGS, EPOCHS, cut)
    successive_halving(plan, SETTINGS, EPOCHS, rest)
    assert cut.epochs + rest.epochs == 21
    assert sorted(states(plan).values()) == [("finished", 9), *[("stopped", 1)] * 6, *[("stopped", 3)] * 2]
    successive_halving(plan, SETTINGS, EPOCHS, Trainings(plan, 0))


def test_a_trial_that_fails_later_keeps_its_place(plan: Plan) -> None:
    successive_halving(plan, SETTINGS, 3, Trainings(plan))
    write_outcome(plan.folder(SETTINGS[3]), "failed", "diverged")
    successive_halving(plan, SETTINGS, EPOCHS, Trainings(plan))
    assert sorted(states(plan).values()).count(("stopped", 1)) == 6


def test_without_a_trial_left_nothing_continues(plan: Plan) -> None:
    def failing(planned: Sequence[Mapping[str, Any]], until: int | None) -> None:
        for number, settings in enumerate(planned, 1):
            folder = plan.folder(settings)
            write_json(folder / "trial.json", {"number": number, "settings": dict(settings)})
            write_outcome(folder, "failed", "no memory")

    successive_halving(plan, SETTINGS, EPOCHS, failing)
    assert {trial.state for trial in read_trials(plan)} == {"failed"}
