"""Trials that fail: what is recorded of them, and what is tried again."""

from __future__ import annotations

import errno
import json
import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray.util
from ray.exceptions import (
    ActorDiedError,
    NodeDiedError,
    OutOfMemoryError,
    RayTaskError,
    WorkerCrashedError,
)
from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError
from ray.train.v2.api.exceptions import WorkerGroupError

from rayner.errors import DivergedError, InputError, RaynerError, StorageError
from rayner.runtime.shared_folder import NotSharedError
from rayner.runtime.sweeps.callback import NotSharedStopper, SweepCallback
from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.trainable import failure_of, is_infrastructure, run_trial
from rayner.runtime.sweeps.trials import (
    failures_of,
    read_trial,
    read_trials,
    record_failure,
    restart_failed,
    write_outcome,
)
from rayner.runtime.training.train_controller import CONTROLLER
from tests.runtime.sweeps.written_trials import EPOCHS, write_trial


def full_disk() -> InputError:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise InputError("out", "the disk is full", "free some space") from error
    except InputError as error:
        return error


def of_a_worker(cause: Exception) -> RaynerError:
    """What a trial on Ray Train workers raises when they fail."""
    error = RaynerError("the workers failed")
    error.__cause__ = WorkerGroupError("failed", {1: cause})
    return error


@pytest.mark.parametrize(
    ("error", "infrastructure"),
    [
        (ActorDiedError(), True),
        (NodeDiedError("lost"), True),
        (OutOfMemoryError("the node is low on memory"), True),
        (RayTaskError("build", "traceback", WorkerCrashedError()), True),
        (of_a_worker(WorkerHealthCheckFailedError("unhealthy", ActorDiedError())), True),
        (full_disk(), True),
        (StorageError("s3://a", "cannot be reached", "try again"), True),
        (of_a_worker(StorageError("s3://a", "cannot be reached", "try again")), True),
        (ActorDiedError(RayTaskError("init", "traceback", ValueError("no"))), False),
        (of_a_worker(ValueError("a bug")), False),
        (MemoryError("no memory"), False),
        (InputError("corpus.train", "no such file"), False),
        (FileNotFoundError(errno.ENOENT, "No such file"), False),
        (DivergedError("step 3", "the loss is not finite"), False),
    ],
)
def test_what_is_a_failure_of_the_infrastructure(error: Exception, infrastructure: bool) -> None:
    assert is_infrastructure(error) is infrastructure


def test_a_trial_that_diverged_does_not_advise_to_start_the_sweep_over() -> None:
    error = DivergedError("step 3", "the loss is not finite", "start over with --fresh")
    assert failure_of(error) == ("step 3: the loss is not finite", True, False)


def test_a_trial_that_was_lost_is_run_again_by_the_next_launch(plan: Plan) -> None:
    rates = {"lost": 0.1, "diverged": 0.2, "wrong": 0.3}
    for number, (way, rate) in enumerate(rates.items(), 1):
        folder = write_trial(plan, number, {"training.learning_rate": rate}, [])
        if way == "lost":
            record_failure(folder, "the loss is not finite", diverged=True)
        record_failure(folder, way, diverged=way == "diverged", infrastructure=way == "lost")
        write_outcome(folder, "failed", way)

    def states() -> list[str]:
        return [trial.state for trial in read_trials(plan)]

    assert restart_failed(plan) == 2
    assert states() == ["pending", "failed", "failed"]
    assert restart_failed(plan, resume_errored=True) == 0
    assert states() == ["pending"] * 3


def test_a_full_disk_is_tried_again_and_settings_that_do_not_go_together_are_not(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fails(plan: Plan, settings: dict[str, Any], *_: Any) -> None:
        tried.append(1)
        where = "windows.length" if "windows.length" in settings else "out"
        raise InputError(where, "no room", "free some space")

    monkeypatch.setattr("rayner.runtime.sweeps.trainable._train", fails)
    cases = (({"training.epochs": 5}, 2), ({"training.epochs": 0}, 0), ({"windows.length": 100_000}, 1))
    for settings, attempts in cases:
        tried.clear()
        for _ in range(2):
            with pytest.raises(InputError):
                run_trial(plan, settings, lambda report: None)
        assert len(tried) == attempts


def failed_in_ray(folder: Path, settings: dict[str, Any], error: Exception) -> Any:
    """A trial of Ray Tune, with the files that Ray Tune writes of an error."""
    (folder / "error.txt").write_text(f"Failure # 1 (occurred at 12:00)\n{error}\n")
    (folder / "error.pkl").write_bytes(pickle.dumps(error))
    files = {"error_file": str(folder / "error.txt"), "pickled_error_file": str(folder / "error.pkl")}
    return SimpleNamespace(config=settings, **files)


def test_a_trial_whose_process_never_started_is_recorded(plan: Plan, tmp_path: Path) -> None:
    given = {"training.learning_rate": 0.1}
    dead = failed_in_ray(tmp_path, given, NodeDiedError("it was lost"))
    SweepCallback(plan, 1).on_trial_recover(1, [], dead)
    # Another launch, which knows of the failure before.
    SweepCallback(plan, 1).on_trial_error(2, [], dead)
    [trial] = read_trials(plan)
    assert (trial.number, trial.state, trial.lost, trial.failures) == (1, "failed", True, 2)
    assert trial.error == "the process of the trial died: it was lost"
    assert trial.settings == given


def test_why_a_process_died_is_the_end_of_what_ray_says(plan: Plan, tmp_path: Path) -> None:
    given = {"training.learning_rate": 0.1}
    frames = "\n".join(
        f'  File "a.py", line {number}, in train\n    self._ret = run()' for number in range(30)
    )
    said = (
        f"ray::ResourceTrainable.train()\n{frames}\nRecipeError: mypackage.toy: No module named 'mypackage'"
    )
    SweepCallback(plan, 1).on_trial_error(1, [], failed_in_ray(tmp_path, given, NodeDiedError(said)))
    [trial] = read_trials(plan)
    cause = "RecipeError: mypackage.toy: No module named 'mypackage'"
    assert trial.error == f"the process of the trial died: {cause}"
    said = "ray.exceptions.OutOfMemoryError: Task was killed.\nMemory was 15.2GB / 16.0GB.\nRefer to the docs"
    killed = failed_in_ray(tmp_path, {"training.learning_rate": 0.2}, NodeDiedError(said))
    SweepCallback(plan, 1).on_trial_error(2, [], killed)
    _, trial = read_trials(plan)
    assert trial.error == f"the process of the trial died: {' '.join(said.splitlines())}"


def test_a_failure_that_the_trial_recorded_itself_is_recorded_once(plan: Plan, tmp_path: Path) -> None:
    given = {"training.learning_rate": 0.1}
    callback = SweepCallback(plan, 1)
    dead = failed_in_ray(tmp_path, given, NodeDiedError("it was lost"))
    callback.on_trial_start(1, [], dead)
    folder = plan.folder(given)
    for _ in range(2):
        record_failure(folder, "the loss is not finite", diverged=True)
        callback.on_trial_recover(1, [], dead)
    assert [row["infrastructure"] for row in failures_of(folder)] == [False, False]
    callback.on_trial_recover(1, [], dead)
    assert [row["infrastructure"] for row in failures_of(folder)] == [False, False, True]
    record_failure(folder, "the loss is not finite", diverged=True)
    callback.on_trial_error(1, [], dead)
    [trial] = read_trials(plan)
    assert (trial.state, trial.lost, trial.error) == ("failed", False, "the loss is not finite")


def test_what_an_attempt_reached_whose_loss_was_not_finite_counts_no_more(plan: Plan) -> None:
    plan = replace(plan, runs={"one": {"seed": 1}, "two": {"seed": 2}})
    given = {"training.learning_rate": 0.1}
    folder = write_trial(plan, 1, given, [[0.5] * EPOCHS, [0.9]])
    (folder / "two/recipe.yaml").write_text("seed: 2\n")
    assert [report["epochs"] for report in read_trial(plan, folder).reports] == [1, 2, 3, 4, 4, 5]
    record_failure(folder, "the loss is not finite", diverged=True)
    assert [report["f1"] for report in read_trial(plan, folder).reports] == [0.5] * 5
    (folder / "two/recipe.yaml").write_text("seed: 2\ncontexts:\n  seed: 1002\n")
    assert [report["f1"] for report in read_trial(plan, folder).reports] == [0.5] * 5
    (folder / "two/recipe.yaml").write_text("seed: 1002\n")
    assert read_trial(plan, folder).last["f1"] == pytest.approx(0.7)


def test_a_second_proposal_of_settings_that_still_train_fails_alone(plan: Plan, tmp_path: Path) -> None:
    given = {"training.learning_rate": 0.1}
    first = SimpleNamespace(config=given, status="RUNNING")
    second = failed_in_ray(tmp_path, given, RaynerError("another process works on this trial"))
    second.status = "RUNNING"
    callback = SweepCallback(plan, 2)
    for trial in (first, second):
        callback.on_trial_start(1, [first, second], trial)
    callback.on_trial_recover(1, [first, second], second)
    callback.on_trial_error(1, [first, second], second)
    assert [(trial.state, trial.failures) for trial in read_trials(plan)] == [("pending", 0)]


def test_workers_of_a_process_that_was_lost_give_up_their_room(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray keeps it as long as the sweep runs: whoever goes on with the trial would wait for it."""
    removed = []
    monkeypatch.setattr(ray.util, "remove_placement_group", lambda group: removed.append(group.id.hex()))
    given = {"training.learning_rate": 0.1}
    folder = write_trial(plan, 1, given, [])
    write_outcome(folder, "failed", "known")
    groups = [f"{number:036x}" for number, _ in enumerate(plan.runs)]
    for group, name in zip(groups, plan.runs, strict=True):
        (folder / name).mkdir(exist_ok=True)
        note = {"process": 1, "placement_group": group}
        (folder / name / CONTROLLER).write_text(json.dumps(note), "utf-8")
    with pytest.raises(InputError, match="known"):
        run_trial(plan, given, lambda report: None)
    assert removed == groups


def test_a_node_that_does_not_see_the_folder_fails_no_trial(plan: Plan, tmp_path: Path) -> None:
    given = {"training.learning_rate": 0.1}
    error = RayTaskError(
        "train", "traceback", NotSharedError("--out here", "the node 10.0.0.2 does not see it")
    )
    callback = SweepCallback(plan, 1)
    callback.on_trial_start(1, [], failed_in_ray(tmp_path, given, error))
    assert not NotSharedStopper(callback).stop_all()
    callback.on_trial_error(1, [], failed_in_ray(tmp_path, given, error))
    assert NotSharedStopper(callback).stop_all()
    assert "10.0.0.2" in str(callback.not_shared)
    assert [trial.state for trial in read_trials(plan)] == ["pending"]
