"""Trials of a sweep at a URI, without Ray: what another machine goes on from, and what the driver knows."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from rayner.errors import InputError, RaynerError
from rayner.files.fetching import is_there, local
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.working import worked_on
from rayner.runtime.sweeps import trainable, trial_places
from rayner.runtime.sweeps.callback import SweepCallback
from rayner.runtime.sweeps.folder import remove_parts
from rayner.runtime.sweeps.plan import Over, Plan
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.sweeps.trainable import run_trial
from rayner.runtime.sweeps.trial_places import FailedAttempt, following, publication_of, remove_last
from rayner.runtime.sweeps.trials import Report, failures_of, read_trials, record_failure, write_outcome
from rayner.tasks.base import Output
from rayner.tasks.registry import load_recipe, parse_recipe
from tests.object_storage import BUCKET, Storage
from tests.runtime.training.several_workers import toy_values
from tests.toy import ToyTask
from tests.waiting import wait_for

GIVEN = {"training.head_learning_rate": 0.1}


@pytest.fixture
def plan(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> Plan:
    """Of a sweep at a URI with two seeds, whose driver works in `tmp_path/driver`."""
    monkeypatch.chdir(tmp_path)
    recipe = parse_recipe(toy_values(tmp_path / "corpus", epochs=2), "recipe")
    settings = sweep_settings(objectives=objectives(["f1"], recipe), seeds=2)
    runs = {"seed1": {"seed": 1}, "seed2": {"seed": 2}}
    uri = f"s3://{BUCKET}/{request.node.name}"
    out, cache = tmp_path / "driver", tmp_path / "examples"
    out.mkdir()
    return Plan(recipe, settings, out, cache, runs, tmp_path, uri=uri, begun="one")


@pytest.fixture
def trial(plan: Plan) -> str:
    """Where the trial is put in place."""
    return str(publication_of(plan, plan.name_of(GIVEN)).uri)


def reported(plan: Plan) -> list[Report]:
    found: list[Report] = []
    run_trial(plan, GIVEN, found.append)
    return found


def move(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: str) -> None:
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / machine))


def in_ray(error: Exception | None = None) -> Any:
    """The trial as the driver's callback is given it; with the files that Ray Tune writes of an error."""
    files: dict[str, Any] = {"error_file": None, "pickled_error_file": None}
    if error is not None:
        Path("error.txt").write_text(f"Failure # 1 (occurred at 12:00)\n{error}\n")
        Path("error.pkl").write_bytes(pickle.dumps(error))
        files = {"error_file": "error.txt", "pickled_error_file": "error.pkl"}
    return SimpleNamespace(config=GIVEN, status="TERMINATED", **files)


def test_a_trial_goes_on_on_another_machine_and_its_driver_has_its_progress(
    plan: Plan, trial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = RuntimeError("the machine is lost")

    def loses(report: Report) -> None:
        seen.append(report)
        if len(seen) == 4:
            raise lost

    seen: list[Report] = []
    with pytest.raises(FailedAttempt, match="is lost"):
        run_trial(plan, GIVEN, loses)
    move(monkeypatch, tmp_path, "other")
    again = reported(plan)
    # Those of before, in their order, and the rest, from the state before the last of them.
    assert [one["epochs"] for one in seen] == [1, 2, 2, 3]
    assert again[:4] == seen
    assert [one["epochs"] for one in again[4:]] == [3, 4, 4]
    callback = SweepCallback(plan, 1)
    callback.on_trial_start(1, [], in_ray())
    callback.on_trial_complete(2, [], in_ray())
    [known] = read_trials(plan)
    assert (known.state, known.reports) == ("finished", [*again[:3], *again[4:]])
    here = {path.relative_to(plan.folder(GIVEN)).as_posix() for path in plan.folder(GIVEN).rglob("*")}
    assert {"seed1/log.jsonl", "seed2/result.json"} <= here
    assert not [name for name in here if name.startswith(("seed1/best", "seed1/tensorboard"))]
    assert is_there(f"{trial}/seed1/best")
    assert not is_there(f"{trial}/seed1/last")


def test_what_is_over_is_reported_from_what_the_driver_knows(plan: Plan, trial: str) -> None:
    name = plan.name_of(GIVEN)
    reports = [{"f1": 0.5, "epochs": 1.0}]
    assert reported(replace(plan, over={name: Over(reports, None)})) == reports
    with pytest.raises(InputError, match="trial: it cannot be"):
        reported(replace(plan, over={name: Over(reports, "it cannot be")}))
    assert not is_there(trial)


def test_a_later_sweep_takes_nothing_from_an_earlier_one(
    plan: Plan, trial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported(plan)
    before = local(f"{trial}/seed1/log.jsonl").read_text()
    assert reported(plan)
    assert local(f"{trial}/seed1/log.jsonl").read_text() == before
    move(monkeypatch, tmp_path, "other")
    reported(replace(plan, begun="another"))
    assert local(f"{trial}/seed1/log.jsonl").read_text() != before


def test_what_earlier_sweeps_left_is_removed_also_what_no_driver_knew_of(
    plan: Plan, trial: str, storage: Storage
) -> None:
    reported(plan)
    assert plan.uri is not None
    for begun in ("one", "another"):
        with worked_on(plan.place("corpora", begun), "cuts") as (folder, _):
            (folder / "fold0.jsonl").write_text(begun)
    remove_parts(plan.uri, "another")
    left = [name for name in storage.objects(plan.uri.rpartition("/")[2]) if "_objects" in name]
    assert [name.rpartition("-")[2] for name in left] == ["fold0.jsonl"]
    assert local(plan.place("corpora", "another", "fold0.jsonl")).read_text() == "another"


@pytest.mark.parametrize("lost", [False, True])
def test_a_loss_that_is_no_number_has_another_seed_on_another_machine(
    plan: Plan, trial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    forward = ToyTask.forward

    def diverging(task: Any, *given: Any) -> Any:
        output = forward(task, *given)
        bad = task.recipe.seed == 1
        return Output({name: value * math.nan for name, value in output.sums.items()}) if bad else output

    monkeypatch.setattr(ToyTask, "forward", diverging)
    callback = SweepCallback(plan, 1)
    callback.on_trial_start(1, [], in_ray())
    with pytest.raises(FailedAttempt, match="no finite number") as raised:
        reported(plan)
    callback.on_trial_recover(2, [], in_ray(raised.value))
    if lost:
        # Before the other seed had begun.
        record_failure(plan.folder(GIVEN), "the node was lost", infrastructure=True)
    move(monkeypatch, tmp_path, "other")
    reported(plan)
    assert load_recipe(Path(f"{trial}/seed1/recipe.yaml")).seed == 1001
    # The driver has it from what was raised.
    failure, *_ = failures_of(plan.folder(GIVEN))
    assert (failure["diverged"], failure["infrastructure"]) == (True, False)
    assert "no finite number" in failure["error"]


def test_a_trial_that_is_stopped_is_told_so_where_it_lies(
    plan: Plan, trial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = SweepCallback(plan, 1)
    callback.on_trial_start(1, [], in_ray())
    run_trial(plan, GIVEN, lambda report: None, until=1)
    assert is_there(f"{trial}/seed1/last")
    # A machine has no further use for it.
    assert not list((tmp_path / "machine/work").rglob("model.safetensors"))
    still_works = publication_of(plan, plan.name_of(GIVEN))
    still_works.open()
    callback.on_trial_complete(2, [], in_ray())
    assert [known.state for known in read_trials(plan)] == ["stopped"]
    assert is_there(f"{trial}/seed1/best")
    assert not is_there(f"{trial}/seed1/last")
    with pytest.raises(TakenOverError):
        still_works.push()
    # Proposed again, by this driver or one that has not heard of it.
    assert [one["epochs"] for one in reported(plan)] == [1]


def test_a_driver_that_was_replaced_stops_no_trial(plan: Plan, trial: str) -> None:
    assert plan.uri is not None
    driver = Publication(plan.uri)
    driver.open()
    run_trial(plan, GIVEN, lambda report: None, until=1)
    write_outcome(plan.folder(GIVEN), "stopped")
    remove_last(plan, plan.name_of(GIVEN))
    assert is_there(f"{trial}/seed1/last")
    remove_last(replace(plan, owner=driver.owner), plan.name_of(GIVEN))
    assert not is_there(f"{trial}/seed1/last")


def test_a_trial_that_another_process_goes_on_with_ends_in_silence(plan: Plan) -> None:
    callback, other = SweepCallback(plan, 2), in_ray()
    callback.on_trial_start(1, [], in_ray())
    seen: list[Report] = []

    def taken_over(report: Report) -> None:
        seen.append(report)
        publication_of(plan, plan.name_of(GIVEN)).open()

    run_trial(plan, GIVEN, taken_over)
    assert len(seen) == 1
    assert not failures_of(plan.folder(GIVEN))
    other.status = "RUNNING"
    callback.on_trial_complete(2, [other], in_ray())
    assert [known.state for known in read_trials(plan)] == ["running"]


def test_a_storage_that_fails_ends_no_trial_that_is_over(
    plan: Plan, trial: str, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    callback = SweepCallback(plan, 1)
    callback.on_trial_start(1, [], in_ray())
    reports = reported(plan)
    storage.fault = lambda method, path: "403"
    callback.on_trial_result(2, [], in_ray(), {})
    callback.on_trial_complete(3, [], in_ray())
    assert "how far head_learning_rate=0.1" in caplog.text
    assert [known.state for known in read_trials(plan)] == ["pending"]
    storage.works()
    # As at the end of the sweep: what is not known to be over keeps what it goes on from.
    remove_last(plan, plan.name_of(GIVEN))
    # The next launch.
    assert reported(plan) == reports
    callback.on_trial_complete(4, [], in_ray())
    assert [known.state for known in read_trials(plan)] == ["finished"]


@pytest.mark.parametrize(("cause", "lost"), [(ActorDiedError(), True), (ValueError("a bug"), False)])
def test_what_caused_a_failure_reaches_the_driver(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, cause: Exception, lost: bool
) -> None:
    def fails(*_: Any) -> bool:
        raise RaynerError("the workers failed") from cause

    monkeypatch.setattr(trainable, "_train", fails)
    callback = SweepCallback(plan, 1)
    callback.on_trial_start(1, [], in_ray())
    with pytest.raises(FailedAttempt) as raised:
        reported(plan)
    callback.on_trial_error(2, [], in_ray(raised.value))
    [known] = read_trials(plan)
    assert (known.state, known.lost) == ("failed", lost)
    assert str(known.error).endswith("the workers failed")


def test_evaluations_of_workers_on_other_machines_are_reported(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_places, "SECONDS_BETWEEN_LOOKS", 0.05)
    publication = publication_of(plan, plan.name_of(GIVEN))
    publication.open()
    log = publication.folder / "seed1/log.jsonl"
    log.parent.mkdir()
    seen: list[Report] = []
    with following(plan, GIVEN, tmp_path / "nothing", seen.append):
        for epoch in (1, 2):
            with log.open("a") as file:
                file.write(json.dumps({"step": epoch, "epoch": epoch, "metrics": {"f1": epoch / 10}}) + "\n")
            publication.push()
            # Of the last one there is no time to see it before they are over.
            wait_for(lambda epoch=epoch: epoch == 2 or len(seen) == epoch)
    assert [(one["epochs"], one["f1"]) for one in seen] == [(1, 0.1), (2, 0.2)]
