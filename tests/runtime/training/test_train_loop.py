"""The loop in one process, on a toy task."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rayner.errors import InputError
from rayner.runtime.training import loop as worker
from rayner.runtime.training.loop import work
from tests.runtime.training.toy_task import LoopTask, largest_difference, toy_run, weights_of


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def test_it_learns_and_leaves_best_last_and_a_log(tmp_path: Path) -> None:
    state = work(toy_run(tmp_path, epochs=15, learning_rate=0.03))
    rows = records(tmp_path)
    losses = [row["loss"] for row in rows if "loss" in row]
    assert state.finished
    assert state.step == state.steps == len(losses)
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    scores = [row["metrics"]["f1"] for row in rows if "metrics" in row]
    assert len(scores) == 15
    assert state.best == max(scores)
    assert json.loads((tmp_path / "best/metrics.json").read_text())["f1"] == max(scores)
    assert float(weights_of(tmp_path / "best")["shift"]) != 0, (
        "what is fitted on dev belongs to the checkpoint"
    )
    first = next(row for row in rows if "loss" in row)
    assert {
        "step",
        "steps",
        "epoch",
        "parts",
        "learning_rate",
        "words_per_second",
        "padding",
        "eta",
    } <= first.keys()
    assert first["loss"] == pytest.approx(first["parts"]["word"] + 0.5 * first["parts"]["mention"])


def test_an_evaluation_says_how_many_epochs_are_over(tmp_path: Path) -> None:
    state = work(toy_run(tmp_path, epochs=2, evaluations_per_epoch=2))
    steps = state.steps // 2
    over = [row["epoch"] for row in records(tmp_path) if "metrics" in row]
    assert over == [math.ceil(steps / 2) / steps, 1, 1 + math.ceil(steps / 2) / steps, 2]
    assert over[0] < 1


@pytest.mark.parametrize("normalization", ["step", "corpus"])
def test_accumulation_changes_nothing(tmp_path: Path, normalization: str) -> None:
    found = []
    for per_forward in (None, 20):
        out = tmp_path / str(per_forward)
        work(toy_run(out, LoopTask(double=True), tokens_per_forward=per_forward, normalization=normalization))
        found.append(weights_of(out / "last"))
    assert largest_difference(*found) < 1e-12


def test_normalization_by_the_step_and_by_the_corpus_differ(tmp_path: Path) -> None:
    for name in ("step", "corpus"):
        work(toy_run(tmp_path / name, LoopTask(double=True), normalization=name))
    assert largest_difference(weights_of(tmp_path / "step/last"), weights_of(tmp_path / "corpus/last")) > 1e-6


def test_patience_ends_a_run_that_no_longer_improves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.3, 0.5, 0.4, 0.5, 0.2])
    monkeypatch.setattr(worker, "score", lambda predictor, items: ({"f1": next(scores)}, []))
    state = work(toy_run(tmp_path, epochs=50, patience=2))
    assert (state.finished, state.best, state.waited) == (True, 0.5, 2)
    assert state.best_step == state.step // 2
    assert state.step < state.steps


def test_patience_counts_anew_from_each_improvement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.3, 0.2, 0.5, 0.4, 0.3])
    monkeypatch.setattr(worker, "score", lambda predictor, items: ({"f1": next(scores)}, []))
    state = work(toy_run(tmp_path, epochs=50, patience=2))
    assert (state.finished, state.best, state.epoch) == (True, 0.5, 5)


def test_patience_counts_from_the_epoch_that_the_task_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.5, 0.4, 0.3, 0.2, 0.1])
    monkeypatch.setattr(worker, "score", lambda predictor, items: ({"f1": next(scores)}, []))
    task = LoopTask()
    task.patience_epoch = 4
    state = work(toy_run(tmp_path, task, epochs=50, patience=2))
    assert (state.finished, state.epoch, state.waited) == (True, 5, 2)
    assert state.best_step == state.step // 5


def test_evaluations_are_spread_over_an_epoch(tmp_path: Path) -> None:
    state = work(toy_run(tmp_path, epochs=2, evaluations_per_epoch=2))
    per_epoch = state.steps // 2
    steps = [row["step"] for row in records(tmp_path) if "metrics" in row]
    assert len(steps) == 4
    assert steps[1] == per_epoch
    assert steps[0] == pytest.approx(per_epoch / 2, abs=1)


def test_a_checkpoint_that_is_due_when_dev_is_scored_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[int] = []
    monkeypatch.setattr(worker, "save_last", lambda out, learner, state, _: stored.append(state.step))
    state = work(toy_run(tmp_path, epochs=1, evaluations_per_epoch=5, checkpoint_every=1))
    assert stored == list(range(1, state.steps + 1))


@pytest.mark.parametrize(("minutes", "overdue"), [(1e-9, True), (60.0, False)])
def test_slow_steps_do_not_keep_a_checkpoint_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float, overdue: bool
) -> None:
    stored: list[int] = []
    monkeypatch.setattr(worker, "save_last", lambda out, learner, state, _: stored.append(state.step))
    state = work(toy_run(tmp_path, epochs=1, log_every=2, checkpoint_minutes=minutes))
    assert stored == sorted({*(range(2, state.steps, 2) if overdue else ()), state.steps})


def test_a_better_checkpoint_is_never_of_a_run_that_knows_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a run that goes on from `last/` with other scores would put a worse one in its place."""
    stored: list[int] = []
    scores, real = iter([0.1, 0.3, 0.2, 0.5, 0.4]), worker.score
    monkeypatch.setattr(worker, "score", lambda *given: ({"f1": next(scores)}, real(*given)[1]))
    monkeypatch.setattr(worker, "save_last", lambda out, learner, state, _: stored.append(state.step))
    state = work(toy_run(tmp_path, epochs=1, evaluations_per_epoch=5, checkpoint_every=10**6))
    assert (state.steps, state.best_step, stored) == (5, 4, [1, 2, 4, 5])


def test_an_overdue_checkpoint_is_written_where_dev_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[int] = []
    real = worker.score
    monkeypatch.setattr(worker, "score", lambda *given: ({"f1": 0.5}, real(*given)[1]))
    monkeypatch.setattr(worker, "save_last", lambda out, learner, state, _: stored.append(state.step))
    work(toy_run(tmp_path, epochs=1, evaluations_per_epoch=5, log_every=2, checkpoint_minutes=1e-9))
    assert stored == [1, 2, 4, 5]


def test_the_average_is_what_is_kept(tmp_path: Path) -> None:
    work(toy_run(tmp_path / "with", epochs=1, average=0.9))
    work(toy_run(tmp_path / "without", epochs=1))
    live = weights_of(tmp_path / "without/last")
    # Averaging does not touch training; it changes what is evaluated and kept.
    assert largest_difference(weights_of(tmp_path / "with/last"), live | {"shift": live["shift"]}) < 1e-7
    assert (
        largest_difference(weights_of(tmp_path / "with/best"), weights_of(tmp_path / "without/best")) > 1e-4
    )


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_learns_too(tmp_path: Path, precision: str) -> None:
    work(toy_run(tmp_path, epochs=10, learning_rate=0.03, precision=precision))
    losses = [row["loss"] for row in records(tmp_path) if "loss" in row]
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])
    assert weights_of(tmp_path / "last")["head.weight"].dtype == torch.float32


@pytest.mark.parametrize(("fail_at", "checkpoint_every"), [(4, 3), (0, 1)])
def test_a_loss_that_is_no_number_names_its_step_and_is_never_stored(
    tmp_path: Path, fail_at: int, checkpoint_every: int
) -> None:
    task = LoopTask()
    task.fail_at = fail_at
    with pytest.raises(InputError, match=rf"step {fail_at + 1}: .*learning_rate"):
        work(toy_run(tmp_path, task, log_every=100, checkpoint_every=checkpoint_every))
    assert all(bool(w.isfinite().all()) for w in weights_of(tmp_path / "last").values())
    assert (tmp_path / "last").exists() == (checkpoint_every <= fail_at)


@pytest.mark.parametrize("average", [None, 0.9])
def test_without_dev_items_the_last_weights_are_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, average: float | None
) -> None:
    run, calibrated = toy_run(tmp_path, average=average), []
    monkeypatch.setattr(run.task, "calibrate", lambda model, items: calibrated.append(items))
    assert work(replace(run, dev=[], calibration=run.dev)).finished
    assert calibrated == [run.dev]
    difference = largest_difference(weights_of(tmp_path / "best"), weights_of(tmp_path / "last"))
    assert difference > 1e-4 if average else difference == 0


def test_what_is_reported_is_the_latest_and_lies_there(tmp_path: Path) -> None:
    told: list[tuple[float, bool]] = []

    def report(numbers: Mapping[str, float], checkpoint: Path) -> None:
        stored = json.loads((checkpoint / "state/state.json").read_text())
        told.append((numbers["step"], stored["finished"]))

    state = work(replace(toy_run(tmp_path, LoopTask(), checkpoint_every=1), report=report))
    assert told[-1] == (state.step, True)
    assert [step for step, _ in told] == sorted({step for step, _ in told})


def test_an_evaluation_does_not_count_as_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def score(predictor: Any, items: Any) -> tuple[dict[str, float], list[Any]]:
        nonlocal now
        now += 1000
        return {"f1": 0.5}, []

    monkeypatch.setattr(worker, "score", score)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    assert work(toy_run(tmp_path, epochs=3)).finished
    assert now == 3000
    assert max(row["eta"] for row in records(tmp_path) if "eta" in row) < 1
