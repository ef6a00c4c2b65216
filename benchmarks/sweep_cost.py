"""What a sweep costs beside the same trainings in a loop, and what early stopping saves and loses.

    python -m benchmarks.sweep_cost cost RECIPE SPACE --trials 16 --out DIR
    python -m benchmarks.sweep_cost stopping RECIPE SPACE --trials 16 --out DIR

Both resume where they stopped: time is counted only while one runs. `cost` has each settings once, with Ray
Tune and one after the other in one process with all cores. `stopping` has the same settings with a scheduler
and without, and three seeds of the best of all. Nothing else may run on the machine for `cost`. Rows of JSON
on standard output: `ratio` is to be at most 1.15 with trials of at least 60 s, `saved` at least 0.5 with
`loss` at most `deviation`.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import typer

from benchmarks.figures import RESULTS, measured, record
from rayner.config import BaseRecipe
from rayner.config.recipe_files import with_settings
from rayner.runtime.sweeps.plan import plan_of
from rayner.runtime.sweeps.sampling import key_of
from rayner.runtime.sweeps.space import Space, load_space
from rayner.runtime.sweeps.sweep import sweep
from rayner.runtime.sweeps.sweep_settings import Scheduler, SweepSettings, resolve_settings
from rayner.runtime.sweeps.trials import read_trials
from rayner.runtime.training.train import train
from rayner.tasks.registry import load_recipe

BEAT_SECONDS = 1.0
SEEDS = (11, 12, 13)
UNITS = {
    **dict.fromkeys(("shortest_trial", "sweep_seconds", "loop_seconds"), "s"),
    "ratio": "ratio",
    **dict.fromkeys(("saved", "best_full", "best_early", "loss", "deviation"), "%"),
    **dict.fromkeys(("steps_full", "steps_early"), "steps"),
    "seeds": "%",
}


def main(
    part: Annotated[Literal["cost", "stopping"], typer.Argument(help="What to measure.")],
    recipe: Annotated[Path, typer.Argument(exists=True, help="The recipe.")],
    space: Annotated[str, typer.Argument(help="A space whose keys are all lists of values.")],
    out: Annotated[Path, typer.Option(help="The folder for the trainings.")] = Path("runs/sweep_cost"),
    trials: Annotated[int, typer.Option(min=2, help="How many of the grid.")] = 16,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key of the recipe.")
    ] = None,
    scheduler: Annotated[Literal["asha", "halving"], typer.Option(help="What stops trials.")] = "halving",
    grace_period: Annotated[int, typer.Option(min=1, help="Epochs before a trial may be stopped.")] = 2,
    reduction_factor: Annotated[
        int, typer.Option(min=2, help="Of so many trials, the best one continues.")
    ] = 3,
    file: Annotated[
        Path | None, typer.Option(help="The file of the figures; one in docs/results if unset.")
    ] = None,
) -> None:
    """Measure, or resume measuring."""
    base, searched = load_recipe(recipe, overrides or []), load_space(space)
    settings = resolve_settings(
        searched,
        base,
        trials=trials,
        search="grid",
        scheduler="none",
        workers=0,
        grace_period=grace_period,
        reduction_factor=reduction_factor,
    )
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    if part == "cost":
        row = cost(base, searched, settings, out)
    else:
        row = stopping(base, searched, settings, scheduler, out)
    name = row["name"] + (f"_{scheduler}" if part == "stopping" else "")
    record(
        "sweep_cost",
        file or RESULTS / f"{name}.json",
        title="What a sweep costs" if part == "cost" else f"What stopping early saves: {scheduler}",
        section="Settings",
        task=base.task,
        precision=base.training.precision or "float32",
        conditions=f"{trials} settings of {space}, {base.training.epochs} epochs each"
        + (" and the winner once more, beside the same trainings in one process." if part == "cost" else "."),
        seeds=SEEDS if part == "stopping" else (base.seed,),
        rows=measured([row], UNITS, headline="ratio" if part == "cost" else "saved"),
    )
    print(json.dumps({"rows": [row]}))


def cost(recipe: BaseRecipe, space: Space, settings: SweepSettings, out: Path) -> dict[str, Any]:
    """Seconds of a sweep and of a loop over the same settings, each with the run of the winner at its end."""
    folder = out / "cost"
    with timed(folder / "sweep_seconds"):
        result = sweep(space, recipe, folder / "sweep", settings)
    rows = read_trials(plan_of(folder / "sweep"))
    runs = {trial.name: (trial.settings, recipe.seed) for trial in rows}
    runs["winner"] = (result["settings"], result["winner"]["seed"])
    loop = []
    for name, (chosen, seed) in runs.items():
        clock = folder / "loop" / f"{name}_seconds"
        with timed(clock):
            again(recipe, chosen, seed, folder / "loop" / name)
        loop.append(seconds_in(clock))
    spent = seconds_in(folder / "sweep_seconds")
    return {
        "name": "sweep_cost",
        "trials": len(rows),
        "cores": os.cpu_count(),
        "threads_of_the_loop": torch.get_num_threads(),
        "shortest_trial": round(min(loop), 1),
        "sweep_seconds": round(spent, 1),
        "loop_seconds": round(sum(loop), 1),
        "ratio": round(spent / sum(loop), 3),
    }


def stopping(
    recipe: BaseRecipe, space: Space, settings: SweepSettings, scheduler: Scheduler, out: Path
) -> dict[str, Any]:
    """Steps and best score of a sweep with a scheduler beside those of one that stops nothing."""
    folder = out / "stopping"
    stops = settings.model_copy(update={"scheduler": scheduler})
    full, early = (
        sweep(space, recipe, folder / name, chosen)
        for name, chosen in (("full", settings), (scheduler, stops))
    )
    metric = settings.objectives[0].metric
    steps = [
        sum(trial.last.get("steps", 0) for trial in read_trials(plan_of(folder / name)))
        for name in ("full", scheduler)
    ]
    seeds = [
        again(recipe, full["settings"], seed, folder / f"seed{seed}")["metrics"][metric] for seed in SEEDS
    ]
    deviation = float(np.std(seeds, ddof=1))
    return {
        "name": "early_stopping",
        "scheduler": scheduler,
        "trials": sum(full["trials"].values()),
        "steps_full": int(steps[0]),
        "steps_early": int(steps[1]),
        "saved": round(1 - steps[1] / steps[0], 3),
        "best_full": round(full["score"][metric], 4),
        "best_early": round(early["score"][metric], 4),
        "loss": round(full["score"][metric] - early["score"][metric], 4),
        "deviation": round(deviation, 4),
        "seeds": [round(score, 4) for score in seeds],
    }


def again(recipe: BaseRecipe, settings: Mapping[str, Any], seed: int, out: Path) -> dict[str, Any]:
    """A training with these settings, in this process."""
    changed = with_settings(recipe, {**settings, "seed": seed}, key_of(settings))
    return train(changed, out, workers=0, cache=out.parent / ".examples", watch=Silence())


@contextlib.contextmanager
def timed(path: Path) -> Iterator[None]:
    """Add the time that passes to that in a file, second by second, so that a kill loses one at most."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before, begin, done = seconds_in(path), time.perf_counter(), threading.Event()
    finished = path.with_name(f"{path.name}.finished")
    if finished.exists():
        yield
        return

    def beat() -> None:
        while not done.wait(BEAT_SECONDS):
            path.write_text(str(before + time.perf_counter() - begin))

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        path.write_text(str(before + time.perf_counter() - begin))
    finished.touch()


def seconds_in(path: Path) -> float:
    """The time in a file; 0 where there is none."""
    return float(path.read_text() or 0) if path.exists() else 0.0


class Silence:
    """Shows nothing of a training."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Take a record."""

    def close(self) -> None:
        """Nothing is open."""


if __name__ == "__main__":
    typer.run(main)
