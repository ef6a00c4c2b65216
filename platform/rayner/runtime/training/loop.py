"""What every worker of a run does, in this process or on a cluster: the loop over steps."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from rayner.config import BaseRecipe
from rayner.counted import counted
from rayner.errors import RaynerError
from rayner.files.folders import replace_folder
from rayner.files.publishing import Publication
from rayner.files.run_checkpoints import BEST, LAST
from rayner.files.working import named_by_uri
from rayner.models.precision import check_precision
from rayner.models.precision_choice import choose
from rayner.runtime.tracking import Record, Tracker, scalars, tracked
from rayner.runtime.training.dev_answers import EVALUATION, score, write_predictions
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
from rayner.runtime.training.run_state import (
    TrainState,
    check_examples,
    identity_of_last,
    load_epoch_state,
    load_state,
    read_state,
    save_last,
)
from rayner.runtime.training.steps import epoch_steps
from rayner.runtime.training.throughput import Clock
from rayner.tasks.base import Examples, Progress, State
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.encoder_task import EncoderTask, load_model
from rayner.tasks.registry import task_of

SECONDS_BETWEEN_REPORTS = 5.0
"""Ray Train takes one report at a time, and looks for it every other second."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """What every worker of a run is given.

    `key` names its data, as `key_of_data`; `dev` are the items to evaluate on, `calibration` those to make
    scores probabilities by, perhaps none; `watchers` are shown what happens. The run pauses after `until`
    epochs, to be gone on with. `report` is told on every worker at once of the latest numbers and of
    `OUT/last`, at the end and at most each `SECONDS_BETWEEN_REPORTS` before. `publication` puts `out` in
    place where the run is at a URI.
    """

    task: EncoderTask[Any]
    examples: Examples
    key: str
    dev: Sequence[Any]
    out: Path
    device: torch.device
    watchers: Sequence[Tracker] = ()
    until: int | None = None
    report: Callable[[Mapping[str, float], Path], None] | None = None
    publication: Publication | None = None
    calibration: Sequence[Any] = ()

    @property
    def recipe(self) -> BaseRecipe:
        """That of the task."""
        return self.task.recipe


@dataclass(slots=True)
class Loop:
    """A run under way on this worker."""

    run: Run
    learner: Learner
    state: TrainState
    clock: Clock
    trackers: Sequence[Tracker]
    epoch_state: State | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    reported: float = -math.inf
    saved: float = field(default_factory=time.monotonic)
    """When `last/` was written, or the run begun."""

    def move(self, **changes: Any) -> None:
        """Change how far the run is."""
        self.state = replace(self.state, **changes)

    def tell(self, record: Record) -> None:
        """Give a record to whoever is shown what happens; its latest numbers are kept for Ray's reports."""
        self.numbers |= {"step": float(record["step"]), **scalars(record)}
        for tracker in self.trackers:
            tracker.write(record)


def work(run: Run) -> TrainState:
    """Train until the run is finished or pauses, from where `OUT/last` is.

    Raises:
        RecipeError: `OUT` holds another run.
        CheckpointError: `OUT/last` is damaged.
        InputError: the loss is no number, or the disk is full; on every worker.
        StorageError: `OUT` cannot be read or written now.
        WorkerFailedError: one of several workers failed otherwise.
        GroupLostError: the process group went away under the run.
    """
    if run.recipe.scaling.threads_per_worker:
        torch.set_num_threads(run.recipe.scaling.threads_per_worker)
    # Within: the others are told of the URI, too, as each has a folder of its own.
    timeout = timedelta(seconds=run.recipe.scaling.collective_timeout_seconds)
    with same_workers(timeout), named_by_uri(run.publication):
        return _work(run)


def _work(run: Run) -> TrainState:
    state, learner = _start(run)
    # Within an epoch its state is that of its start; between two, it is made anew.
    epoch_state = load_epoch_state(run.out, run.device) if state.position else None
    opened = tracked(run.out, run.recipe, state.step, run.watchers) if rank() == 0 else None
    with opened or contextlib.nullcontext([]) as trackers:
        loop = Loop(run, learner, state, Clock(state.seconds, run.device), trackers, epoch_state)
        while not loop.state.finished and not _pauses(run, loop.state):
            _train_epoch(loop)
    return loop.state


def _pauses(run: Run, state: TrainState) -> bool:
    return run.until is not None and state.epoch >= run.until


def _start(run: Run) -> tuple[TrainState, Learner]:
    recipe, task, last = run.recipe, run.task, run.out / LAST
    stored = on_first(lambda: read_state(run.out, recipe))
    same_on_all(lambda: identity_of_last(run.out), last)
    lengths, groups = run.examples.lengths, run.examples.groups
    first_plan = task.plan(lengths, groups, 0)
    steps = recipe.training.epochs * len(first_plan)
    if stored is None:
        state = TrainState(run.key, steps, world_size())
        torch.manual_seed(recipe.seed)
        model = task.build().to(run.device)
        chosen = on_first(lambda: choose(recipe.training.precision, model, training=True, advise=True))
        check_precision(chosen.precision, run.device)
        state = replace(state, precision=chosen.precision, bfloat16_time=chosen.slower_by)
        if state.precision != "float32":
            log.info("computing in %s", state.precision)
    else:
        check_examples(run.out, stored, run.key, steps)
        check_precision(stored.precision, run.device)
        state = replace(stored, workers=world_size())
        model = load_model(last, task)
        log.info("going on from step %d of %d in %s", state.step, state.steps, last)
    divisors = None
    if recipe.training.normalization == "corpus":
        divisors = mean_counts(task, run.examples, first_plan, state.steps)
    learner = build_learner(task, model, divisors, run.device, state.precision)
    broadcast_model(learner.model)
    if stored is not None:
        load_state(run.out, learner)
        learner.scaler.load_state_dict(stored.scale or {})
    return state, learner


def _train_epoch(loop: Loop) -> None:
    run, training, epoch = loop.run, loop.run.recipe.training, loop.state.epoch
    if loop.state.position == 0:
        loop.epoch_state = _prepared(loop, epoch)
    plan = run.task.plan(run.examples.lengths, run.examples.groups, epoch, loop.epoch_state)
    if len(plan) * training.epochs != loop.state.steps:
        epochs = counted(training.epochs, "epoch")
        what = f"epoch {epoch + 1} has {len(plan)} of {loop.state.steps} steps in {epochs}"
        raise RaynerError(f"{run.recipe.task}: {what}; plans of all epochs must have equally many")
    times = training.evaluations_per_epoch
    pauses = {math.ceil(len(plan) * turn / times) for turn in range(1, times + 1)}
    pin = run.device.type == "cuda"
    rest = plan[loop.state.position :]
    with epoch_steps(run.task, run.examples, epoch, rest, pin) as steps:
        for step in steps:
            progress = _progress(loop, epoch)
            rate = set_rate(loop.learner.optimizer, progress.step, progress.steps, training.warmup)
            take_step(loop.learner, step, progress)
            loop.clock.add(step)
            loop.move(step=progress.step + 1, position=loop.state.position + 1)
            is_due = loop.state.step % training.checkpoint_every == 0
            if loop.state.step % training.log_every == 0:
                _log(loop, rate)
                is_due |= _is_overdue(loop)
            if loop.state.position in pauses:
                _pause(loop, len(plan), is_due)
            elif is_due:
                _save_last(loop)
            if loop.state.finished:
                return


def _prepared(loop: Loop, epoch: int) -> State | None:
    """What the task needs for an epoch, the same on every worker."""
    model = loop.learner.model
    model.eval()
    with torch.no_grad():
        found = loop.run.task.prepare_epoch(model, loop.run.examples, epoch)
    model.train()
    if found is None:
        return None
    shared = on_first(lambda: {name: tensor.cpu() for name, tensor in found.items()})
    return {name: tensor.to(loop.run.device) for name, tensor in shared.items()}


def _progress(loop: Loop, epoch: int) -> Progress:
    epochs, average = loop.run.recipe.training.epochs, loop.learner.average
    weights = None if average is None else average.weights
    return Progress(loop.state.step, loop.state.steps, epoch, epochs, loop.epoch_state, weights)


def _log(loop: Loop, rate: float) -> None:
    loop.learner.meter.check()
    loss, parts = loop.learner.meter.read()
    state = loop.state
    loop.tell(
        {
            "step": state.step,
            "steps": state.steps,
            "epoch": state.epoch + 1,
            "loss": loss,
            "parts": parts,
            "learning_rate": rate,
            **loop.clock.read(state.steps - state.step),
        }
    )


def _is_overdue(loop: Loop) -> bool:
    """Whether slow steps have kept `last/` waiting, by the clock of worker 0."""
    limit = 60 * loop.run.recipe.training.checkpoint_minutes
    return on_first(lambda: time.monotonic() - loop.saved >= limit)


def _pause(loop: Loop, steps_of_epoch: int, is_due: bool) -> None:
    """Evaluate, and store how far the run is where that is due: at the end of an epoch or of the run, and
    with a new `best/`, too, of which a run that goes on from an earlier state would know nothing."""
    loop.learner.meter.check()
    begin = time.perf_counter()
    epoch, training = loop.state.epoch, loop.run.recipe.training
    ends = loop.state.position == steps_of_epoch
    if loop.run.dev:
        _evaluate(loop)
        is_due |= loop.state.best_step == loop.state.step
    if ends:
        loop.move(epoch=epoch + 1, position=0)
    tired = training.patience is not None and loop.state.waited >= training.patience
    finished = tired or (ends and epoch + 1 == training.epochs)
    if finished:
        loop.learner.meter.conclude(loop.state.step)
    if finished and not loop.run.dev:
        with _averaged(loop.learner):
            _calibrate(loop)
            _save_best(loop, {}, [])
    if finished or ends or is_due:
        loop.move(finished=finished)
        _save_last(loop)
    loop.clock.skip(time.perf_counter() - begin)


def _evaluate(loop: Loop) -> None:
    run, learner, state = loop.run, loop.learner, loop.state
    with _averaged(learner):
        with torch.no_grad():
            run.task.fit(learner.model, run.dev)
        broadcast_model(learner.model)
        _calibrate(loop)
        predictor = run.task.scorer(learner.model)
        # As neighbours of which none is annotated: that is no reason to lose the training.
        metrics, predicted = ({}, []) if predictor is None else score(predictor, run.dev)
        value = metrics.get(run.task.metric.name)
        if value is None:
            log.warning("dev says nothing about %s: best/ is the last step", run.task.metric.name)
        if value is None or run.task.metric.is_better(float(value), state.best):
            _save_best(loop, metrics, predicted)
            loop.move(best=None if value is None else float(value), best_step=state.step, waited=0)
        elif state.epoch + 1 >= run.task.patience_epoch:
            loop.move(waited=state.waited + 1)
    over = state.step * run.recipe.training.epochs / state.steps
    loop.tell({"step": state.step, "epoch": over, "seconds": loop.clock.seconds, "metrics": metrics})


def _calibrate(loop: Loop) -> None:
    if loop.run.calibration:
        with torch.no_grad():
            loop.run.task.calibrate(loop.learner.model, loop.run.calibration)


def _save_best(loop: Loop, metrics: dict[str, Any], predicted: Sequence[Any]) -> None:
    run = loop.run

    def write(folder: Path) -> None:
        save_checkpoint(folder, run.task, loop.learner.model, metrics)
        write_predictions(folder / EVALUATION, task_of(run.recipe).kind, run.dev, predicted)

    on_first(lambda: replace_folder(run.out / BEST, write))


def _save_last(loop: Loop) -> None:
    loop.learner.meter.check()
    run, learner = loop.run, loop.learner
    scale = learner.scaler.state_dict() or None
    loop.move(seconds=loop.clock.seconds, scale=scale)

    def save() -> bool:
        save_last(run.out, learner, loop.state, loop.epoch_state)
        if run.publication is not None:
            run.publication.push()
        return loop.state.finished or time.monotonic() - loop.reported >= SECONDS_BETWEEN_REPORTS

    loop.saved = time.monotonic()
    # One clock decides: who reports waits for the others.
    if on_first(save) and run.report is not None:
        run.report(loop.numbers, run.out / LAST)
        loop.reported = time.monotonic()


@contextlib.contextmanager
def _averaged(learner: Learner):
    """The model in evaluation mode, with the averaged weights where there are any."""
    learner.model.eval()
    with learner.average.applied() if learner.average is not None else contextlib.nullcontext():
        yield
    learner.model.train()
