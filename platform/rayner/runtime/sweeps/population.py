"""Population-based training: trials that fall behind go on from a better one's checkpoint, with new settings.

Source: Jaderberg et al., Population Based Training of Neural Networks, 2017, as Ray Tune has it. Settings are
those of a moment; `schedule.jsonl` of a trial has them all.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rayner.errors import InputError
from rayner.runtime.checkpoints import BEST, LAST
from rayner.runtime.sweeps.schedule import DEFAULT_TRIALS, Room
from rayner.runtime.sweeps.space import Space, choices, within
from rayner.runtime.sweeps.tracking import note_parent
from rayner.runtime.sweeps.trial import settings_of
from rayner.runtime.sweeps.trials import (
    RUN_RESULT,
    SCHEDULE,
    TRIALS,
    Plan,
    add_line,
    note_failure,
    read_lines,
    read_progress,
)
from rayner.runtime.tracking import Record
from rayner.runtime.train import train
from rayner.tasks.checkpoint import replace_recipe

CHANGEABLE = (
    "training.learning_rate",
    "training.head_learning_rate",
    "training.weight_decay",
    "training.clip",
)
_NAME = "population"
_HANDED = ".handed-"


def check_population(space: Space) -> None:
    """Refuse a space with a setting that cannot change while a run goes on.

    Raises:
        InputError: the key.
    """
    for key in space.domains:
        if key not in CHANGEABLE and not key.startswith("loss."):
            cure = f"search loss.* and {', '.join(CHANGEABLE)}, or take the scheduler asha"
            raise InputError(f"space {space.name}", f"{key} cannot change while a run goes on", cure)


def run_population(plan: Plan, space: Space, room: Room) -> None:
    """Run or restore a population; its state is Ray Tune's own, where checkpoints change hands."""
    from ray import tune

    from rayner.runtime.sweeps.board import Board
    from rayner.runtime.sweeps.kept import TUNER, KeepState, bring_back, keep_state
    from rayner.runtime.sweeps.turns import FairPopulation

    storage = plan.out / "ray"
    kept = storage / "kept"
    settings = plan.settings
    trials = settings.trials or DEFAULT_TRIALS
    trainable = tune.with_resources(_trial(plan), tune.PlacementGroupFactory([dict(room.resources)]))
    if bring_back(kept, storage / _NAME):
        try:
            tuner = tune.Tuner.restore(str(storage / _NAME), trainable)
        except (ImportError, AttributeError) as error:
            what = f"the population was begun by another version of rayner ({error})"
            raise InputError(str(plan.out), what, "start over with --fresh") from error
    else:
        # A launch that was killed before it was written down leaves trials that nobody knows.
        for leftover in (storage, plan.out / TRIALS):
            shutil.rmtree(leftover, ignore_errors=True)
        objective = settings.objectives[0]
        tuner = tune.Tuner(
            trainable,
            param_space=dict(space.domains),
            tune_config=tune.TuneConfig(
                scheduler=FairPopulation(
                    time_attr="epochs",
                    metric=objective.metric,
                    mode=objective.mode,
                    perturbation_interval=settings.grace,
                    hyperparam_mutations=mutations(space),
                    custom_explore_fn=_within(space),
                ),
                num_samples=trials,
                max_concurrent_trials=None,
                reuse_actors=True,
                trial_dirname_creator=tune_id,
            ),
            run_config=tune.RunConfig(
                name=_NAME,
                storage_path=str(storage),
                callbacks=[Board(plan, trials, by_id=True), KeepState(kept)],
                failure_config=tune.FailureConfig(max_failures=settings.retries),
                verbose=0,
            ),
        )
    tuner.fit()
    # That all are finished has to be known before the checkpoints go, which otherwise would be looked for.
    keep_state(storage / _NAME, storage / _NAME / TUNER, kept)
    # The checkpoints are of use to the population alone; its trials are on disk.
    handed = (plan.out / TRIALS).glob(f"*/{_HANDED}*")
    for checkpoint in (*storage.glob(f"{_NAME}/*/checkpoint_*"), *handed):
        shutil.rmtree(checkpoint, ignore_errors=True)


def mutations(space: Space) -> dict[str, Any]:
    """What settings change to: of a list Ray Tune takes a neighbour, but a domain's values it multiplies."""
    return {key: choices(domain) or domain for key, domain in space.domains.items()}


def _within(space: Space) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What brings changed settings back into their ranges: Ray Tune multiplies by 0.8 or 1.2 unbounded."""

    def bounded(settings: dict[str, Any]) -> dict[str, Any]:
        return {key: within(space.domains[key], value) for key, value in settings.items()}

    return bounded


def tune_id(trial: Any) -> str:
    """The name of a trial's folder within Ray Tune's."""
    return str(trial.trial_id)


def _trial(plan: Plan) -> Callable[[dict[str, Any]], None]:
    def trial(config: dict[str, Any]) -> None:
        from ray import tune

        folder = plan.out / TRIALS / tune.get_context().get_trial_id()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _train(plan, folder, settings_of(plan, config))
        except Exception as error:
            note_failure(folder, error)
            raise

    return trial


def _train(plan: Plan, folder: Path, settings: Mapping[str, Any]) -> None:
    from ray import tune

    os.chdir(plan.working_folder)
    # It tells of each checkpoint that changes hands.
    logging.getLogger("ray.tune").setLevel(logging.WARNING)
    logging.getLogger("ray.train").setLevel(logging.WARNING)
    [(name, changes)] = plan.runs.items()
    out = folder / name
    recipe = plan.recipe_of(settings, changes)
    note_parent(plan, out)
    schedule = read_lines(folder / SCHEDULE)
    changed = not schedule or schedule[-1]["settings"] != settings
    checkpoint = tune.get_checkpoint()
    # After a kill the population may be restored as it was before its first checkpoint changed hands.
    fresh = checkpoint is None and changed
    if checkpoint is not None:
        with checkpoint.as_directory() as found:
            for part in (LAST, BEST):
                shutil.rmtree(out / part, ignore_errors=True)
                shutil.copytree(Path(found) / part, out / part)
        (out / RUN_RESULT).unlink(missing_ok=True)
        replace_recipe(out / LAST, recipe)
    if changed:
        add_line(folder / SCHEDULE, {"step": 0 if fresh else _step(out), "settings": dict(settings)})
    watch = _WithCheckpoints(plan, folder, settings, out)
    train(recipe, out, fresh=fresh, workers=0, cache=plan.cache, watch=watch)
    tune.report(read_progress(plan, folder, settings)[0][-1])
    shutil.rmtree(out / LAST, ignore_errors=True)


class _WithCheckpoints:
    """Reports an evaluation once the checkpoint of it is written, which is after the evaluation."""

    def __init__(self, plan: Plan, folder: Path, settings: Mapping[str, Any], out: Path) -> None:
        self._plan, self._folder, self._settings, self._out = plan, folder, settings, out
        self._evaluated: int | None = None

    def write(self, record: Record) -> None:
        """Report what waits, if its checkpoint is there."""
        if self._evaluated is not None and _step(self._out) >= self._evaluated:
            self._evaluated = None
            self._report()
        if "metrics" in record:
            self._evaluated = int(record["step"])

    def close(self) -> None:
        """Nothing is open."""

    def _report(self) -> None:
        from ray import tune

        reports, _ = read_progress(self._plan, self._folder, self._settings)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=_HANDED) as folder:
            for part in (LAST, BEST):
                shutil.copytree(self._out / part, Path(folder) / part, copy_function=os.link)
            tune.report(reports[-1], checkpoint=tune.Checkpoint.from_directory(folder))


def _step(out: Path) -> int:
    """The step of the run's last checkpoint; 0 where there is none."""
    state = out / LAST / "state" / "state.json"
    return int(json.loads(state.read_text(encoding="utf-8"))["step"]) if state.exists() else 0
