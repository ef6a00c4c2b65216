"""What every worker of a run does, in this process or on a cluster: the loop over steps."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from rayner.config import BaseRecipe, DocumentTraining
from rayner.runtime.checkpoints import (
    BEST,
    LAST,
    Standing,
    check_examples,
    identity_of_last,
    load_state,
    read_standing,
    save_last,
)
from rayner.runtime.evaluate import EVALUATION, score, write_predictions
from rayner.runtime.folders import replace_folder
from rayner.runtime.tracking import Record, Tracker, tracked
from rayner.runtime.training.distributed import (
    broadcast_model,
    on_first,
    rank,
    same_on_all,
    same_workers,
    world_size,
)
from rayner.runtime.training.learner import Learner, build_learner, mean_counts, take_step
from rayner.runtime.training.optimization import set_rate
from rayner.runtime.training.steps import Examples, epoch_steps
from rayner.runtime.training.throughput import Clock
from rayner.tasks.base import Progress, TrainTask
from rayner.tasks.checkpoint import load_model, save_checkpoint

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """What every worker of a run is given.

    `key` names the content of the examples; `dev` are the items to evaluate on, perhaps none; `watcher` is
    shown what happens. The run pauses after `until` epochs, to be gone on with.
    """

    recipe: BaseRecipe
    task: TrainTask[Any, Any, Any]
    examples: Examples
    key: str
    dev: Sequence[Any]
    out: Path
    device: torch.device
    watcher: Tracker | None = None
    until: int | None = None


@dataclass(slots=True)
class _Course:
    """A run under way on this worker."""

    run: Run
    learner: Learner
    standing: Standing
    clock: Clock
    trackers: Sequence[Tracker]

    def move(self, **changes: Any) -> None:
        self.standing = replace(self.standing, **changes)

    def tell(self, record: Record) -> None:
        for tracker in self.trackers:
            tracker.write(record)


def work(run: Run) -> Standing:
    """Train until the run is finished or pauses, from where `OUT/last` stands.

    Raises:
        RecipeError: `OUT` holds another run.
        CheckpointError: `OUT/last` is damaged.
        InputError: the loss is no number, or the disk is full; on every worker.
        StorageError: `OUT` cannot be read or written now.
        WorkerFailedError: one of several workers failed otherwise.
        GroupLostError: the process group went away under the run.
    """
    with same_workers():
        return _work(run)


def _work(run: Run) -> Standing:
    standing, learner = _start(run)
    opened = tracked(run.out, run.recipe, standing.step, run.watcher) if rank() == 0 else None
    with opened or contextlib.nullcontext([]) as trackers:
        course = _Course(run, learner, standing, Clock(standing.seconds, run.device), trackers)
        while not course.standing.finished and not _pauses(run, course.standing):
            _train_epoch(course)
    return course.standing


def _pauses(run: Run, standing: Standing) -> bool:
    return run.until is not None and standing.epoch >= run.until


def _start(run: Run) -> tuple[Standing, Learner]:
    recipe, task, last = run.recipe, run.task, run.out / LAST
    stored = on_first(lambda: read_standing(run.out, recipe))
    same_on_all(lambda: identity_of_last(run.out), last)
    first_plan = task.plan(run.examples.lengths, run.examples.groups, 0)
    if stored is None:
        later = range(1, recipe.training.epochs)
        steps = sum(len(task.plan(run.examples.lengths, run.examples.groups, epoch)) for epoch in later)
        standing = Standing(run.key, len(first_plan) + steps, world_size())
        torch.manual_seed(recipe.seed)
        model = task.build()
    else:
        check_examples(run.out, stored, run.key)
        standing = replace(stored, workers=world_size())
        model = load_model(last, task)
        log.info("going on from step %d of %d in %s", standing.step, standing.steps, last)
    divisors = None
    if isinstance(recipe.training, DocumentTraining) and recipe.training.normalization == "corpus":
        divisors = mean_counts(recipe, task, run.examples, first_plan, standing.steps)
    learner = build_learner(recipe, task, model, divisors, run.device)
    broadcast_model(learner.model)
    if stored is not None:
        load_state(run.out, learner.model, learner.optimizer, learner.average)
        learner.scaler.load_state_dict(stored.scale or {})
    return standing, learner


def _train_epoch(course: _Course) -> None:
    run, training, epoch = course.run, course.run.recipe.training, course.standing.epoch
    plan = run.task.plan(run.examples.lengths, run.examples.groups, epoch)
    times = training.evaluations_per_epoch
    pauses = {math.ceil(len(plan) * turn / times) for turn in range(1, times + 1)}
    pin = run.device.type == "cuda"
    rest = plan[course.standing.position :]
    with epoch_steps(run.recipe, run.task, run.examples, epoch, rest, pin) as steps:
        for step in steps:
            progress = Progress(course.standing.step, course.standing.steps, epoch, training.epochs)
            rate = set_rate(course.learner.optimizer, progress.step, progress.steps, training.warmup)
            take_step(course.learner, step, progress)
            course.clock.add(step)
            course.move(step=progress.step + 1, position=course.standing.position + 1)
            if course.standing.step % training.log_every == 0:
                _log(course, rate)
            if course.standing.position in pauses:
                _pause(course, len(plan))
            elif course.standing.step % training.checkpoint_every == 0:
                _save_last(course)
            if course.standing.finished:
                return


def _log(course: _Course, rate: float) -> None:
    course.learner.meter.check()
    loss, parts = course.learner.meter.read()
    standing = course.standing
    course.tell(
        {
            "step": standing.step,
            "steps": standing.steps,
            "epoch": standing.epoch + 1,
            "loss": loss,
            "parts": parts,
            "learning_rate": rate,
            **course.clock.read(standing.steps - standing.step),
        }
    )


def _pause(course: _Course, steps_of_epoch: int) -> None:
    """Evaluate, and store where the run stands at the end of an epoch or of the run."""
    course.learner.meter.check()
    begin = time.perf_counter()
    epoch, training = course.standing.epoch, course.run.recipe.training
    ends = course.standing.position == steps_of_epoch
    if course.run.dev:
        _evaluate(course)
    if ends:
        course.move(epoch=epoch + 1, position=0)
    tired = training.patience is not None and course.standing.waited >= training.patience
    finished = tired or (ends and epoch + 1 == training.epochs)
    if finished and not course.run.dev:
        with _averaged(course.learner):
            _save_best(course, {}, [])
    if finished or ends or course.standing.step % training.checkpoint_every == 0:
        course.move(finished=finished)
        _save_last(course)
    course.clock.skip(time.perf_counter() - begin)


def _evaluate(course: _Course) -> None:
    run, learner, standing = course.run, course.learner, course.standing
    with _averaged(learner):
        with torch.no_grad():
            run.task.fit(learner.model, run.dev)
        broadcast_model(learner.model)
        metrics, predicted = score(run.task.predictor(learner.model), run.dev)
        value = float(metrics[run.task.metric])
        if standing.best is None or value > standing.best:
            _save_best(course, metrics, predicted)
            course.move(best=value, best_step=standing.step, waited=0)
        else:
            course.move(waited=standing.waited + 1)
    course.tell({"step": standing.step, "epoch": standing.epoch + 1, "metrics": metrics})


def _save_best(course: _Course, metrics: dict[str, Any], predicted: Sequence[Any]) -> None:
    run = course.run

    def write(folder: Path) -> None:
        save_checkpoint(folder, run.recipe, run.task, course.learner.model, metrics)
        write_predictions(folder / EVALUATION, run.dev, predicted)

    on_first(lambda: replace_folder(run.out / BEST, write))


def _save_last(course: _Course) -> None:
    course.learner.meter.check()
    run, learner = course.run, course.learner
    scale = learner.scaler.state_dict() or None
    course.move(seconds=course.clock.seconds, scale=scale)
    on_first(
        lambda: save_last(
            run.out, run.recipe, run.task, learner.model, learner.optimizer, learner.average, course.standing
        )
    )


@contextlib.contextmanager
def _averaged(learner: Learner):
    """The model in evaluation mode, with the averaged weights where there are any."""
    learner.model.eval()
    with learner.average.applied() if learner.average is not None else contextlib.nullcontext():
        yield
    learner.model.train()
