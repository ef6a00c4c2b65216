"""The command `rayner tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rayner.cli.options import Json, Overrides, given_output, given_path
from rayner.cli.printing import command, logs_on_stderr, print_result, print_summary, report_command
from rayner.counted import counted
from rayner.metrics.shown import shown_score
from rayner.runtime.run_folder import run_folder

SpaceName = Annotated[
    str, typer.Argument(metavar="SPACE", help="FILE.py, FILE.py:function or module:function.")
]
RecipeFile = Annotated[
    Path, typer.Argument(metavar="RECIPE", parser=given_path, help="The recipe to start from.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        parser=given_output,
        help="The sweep's folder, or its URI; if unset, runs/tune_RECIPE here or in $RAYNER_STORAGE.",
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="How many trials; if unset, 16, or the whole grid."),
]
Search = Annotated[
    Literal["grid", "random", "optuna"] | None,
    typer.Option(help="What proposes settings; if unset, as the space says, or optuna for several metrics."),
]
Scheduler = Annotated[
    Literal["none", "asha", "halving"] | None,
    typer.Option(help="What stops trials early; if unset, as the space recommends, else none."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME[:max|min]",
        help="The objective; if unset, the space's or the task's. Several with Optuna.",
    ),
]
Folds = Annotated[
    int, typer.Option(min=0, metavar="N", help="Cross-validation of the training items; 0 for none.")
]
Seeds = Annotated[int, typer.Option(min=1, metavar="N", help="Trainings with other seeds in each trial.")]
HeldOut = Annotated[
    float,
    typer.Option(min=0, max=0.5, metavar="X", help="The part of the training items kept from all trials."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Ray Train workers of each trial; 0: its own process. If unset, as the recipe says.",
    ),
]
MaxConcurrent = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Concurrent trials; if unset, all that the cluster has resources for now."
    ),
]
GracePeriod = Annotated[int, typer.Option(min=1, metavar="N", help="Epochs before a trial may be stopped.")]
ReductionFactor = Annotated[
    int, typer.Option(min=2, metavar="N", help="Of so many trials, the best one continues.")
]
MaxFailures = Annotated[
    int, typer.Option(min=0, metavar="N", help="How often a trial that fails is restarted.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming the sweep in --out.")]
ResumeErrored = Annotated[
    bool,
    typer.Option(
        "--resume-errored",
        help="Run again all trials that failed, not only those that lost their process, node or storage.",
    ),
]


def tune(
    space: SpaceName,
    recipe: RecipeFile,
    overrides: Overrides = None,
    out: Out = None,
    trials: Trials = None,
    search: Search = None,
    scheduler: Scheduler = None,
    metric: Metrics = None,
    folds: Folds = 0,
    seeds: Seeds = 1,
    held_out: HeldOut = 0.0,
    workers: Workers = None,
    max_concurrent: MaxConcurrent = None,
    grace_period: GracePeriod = 2,
    reduction_factor: ReductionFactor = 3,
    max_failures: MaxFailures = 2,
    fresh: Fresh = False,
    resume_errored: ResumeErrored = False,
    as_json: Json = False,
) -> None:
    """Search settings; resume the sweep in --out if there is one. Its best.yaml is a recipe for train."""
    folder = out or run_folder(f"tune_{recipe.stem}")

    with logs_on_stderr():
        from rayner.runtime.sweeps.space import load_space, warn_of_overrides
        from rayner.runtime.sweeps.sweep import sweep
        from rayner.runtime.sweeps.sweep_settings import resolve_settings
        from rayner.tasks.registry import load_recipe

        base, searched = load_recipe(recipe, overrides or []), load_space(space)
        warn_of_overrides(searched, overrides or [])
        settings = resolve_settings(
            searched,
            base,
            metric or (),
            trials=trials,
            search=search,
            scheduler=scheduler,
            folds=folds,
            seeds=seeds,
            held_out=held_out,
            workers=workers,
            max_concurrent=max_concurrent,
            grace_period=grace_period,
            reduction_factor=reduction_factor,
            max_failures=max_failures,
        )
        result = sweep(searched, base, folder, settings, fresh, resume_errored)
    print_result(result, as_json, lambda result: _show(result, folder))


def _show(result: dict[str, Any], folder: Path) -> None:
    winner = result["winner"]
    facts = {
        "best settings": result["settings"] or "those of the recipe",
        "best trial": _scores(result["score"], _deviation(result)),
        **_doubt(result),
        "trained again": _scores(winner["score"]) or winner.get("error") or "no dev in the recipe",
    }
    if winner.get("held_out"):
        facts["held out"] = _scores(winner["held_out"])
    facts |= {
        "trials": result["trials"],
        "recipe": result["best"],
        "checkpoint": winner["checkpoint"] or "none",
        "seconds": result["seconds"],
    }
    # The recipes of all sweeps have one name, and would all be trained in runs/best.
    named = folder if folder.name.strip(".") else folder.resolve()
    train = command("rayner", "train", result["best"], "--out", f"{named}_best")
    print_summary(facts, [report_command(folder), train])


def _doubt(result: dict[str, Any]) -> dict[str, str]:
    """Where the best score lies, and how many others lie there, too."""
    if result["interval"] is None:
        return {}
    low, high = (shown_score(_objective(result), value) for value in result["interval"])
    within = result["within_interval"]
    others = counted(within, "other trial") if within else "no other trials"
    hint = "; --folds tells more of them apart" if within else ""
    return {"its interval": f"{low} to {high} (95 %), with {others} in it{hint}"}


def _scores(scores: dict[str, float], deviation: str = "") -> str:
    """Scores on a line; beside the first one its deviation, if there is one."""
    shown = [f"{name} {shown_score(name, value)}" for name, value in scores.items()]
    if deviation:
        shown[0] += deviation
    return ", ".join(shown)


def _deviation(result: dict[str, Any]) -> str:
    if result["spread"] is None:
        return ""
    return f" (standard deviation over runs {shown_score(_objective(result), result['spread'])})"


def _objective(result: dict[str, Any]) -> str:
    """The one that trials are ranked by."""
    return next(iter(result["score"]))
