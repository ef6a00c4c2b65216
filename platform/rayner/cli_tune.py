"""The verb `rayner tune`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from rayner.runtime.console import percent, print_summary
from rayner.runtime.run_folder import run_folder

Run = Callable[[Callable[[], Any], bool, Callable[[Any], None]], None]

SpaceName = Annotated[
    str, typer.Argument(metavar="SPACE", help="FILE.py, FILE.py:function or module:function.")
]
RecipeFile = Annotated[Path, typer.Argument(metavar="RECIPE", exists=True, help="The recipe to start from.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.")
]
Out = Annotated[Path | None, typer.Option(help="The sweep's folder; runs/tune_RECIPE if unset.")]
Trials = Annotated[int | None, typer.Option(min=1, help="How many; 16, or the whole grid, if unset.")]
Search = Annotated[
    Literal["grid", "random", "optuna"] | None, typer.Option(help="Who proposes settings; the space says.")
]
Scheduler = Annotated[
    Literal["none", "asha", "halving"] | None,
    typer.Option(help="Who stops trials early; the space says."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME[:max|min]",
        help="What is searched for; several with Optuna.",
    ),
]
Folds = Annotated[int, typer.Option(min=0, help="Cross-validation of the training items; 0 for none.")]
Seeds = Annotated[int, typer.Option(min=1, help="Trainings with other seeds in each trial.")]
HeldOut = Annotated[
    float, typer.Option(min=0, max=0.5, help="The part of the training items kept from all trials.")
]
Workers = Annotated[
    int | None, typer.Option(min=0, help="Ray Train workers of each trial; 0 trains in its own process.")
]
AtOnce = Annotated[
    int | None,
    typer.Option(min=1, help="Trials at once; if unset, all that the cluster has room for as it is."),
]
Grace = Annotated[int, typer.Option(min=1, help="Epochs before a trial may be stopped.")]
Reduction = Annotated[int, typer.Option(min=2, help="Of so many trials, the best one goes on.")]
Retries = Annotated[int, typer.Option(min=0, help="How often a trial that fails is begun again.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming the sweep in --out.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")
]


def add_tune(app: typer.Typer, run: Run) -> None:
    """Add the verb; `run` calls it and prints its result, as for every other command."""

    @app.command()
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
        at_once: AtOnce = None,
        grace: Grace = 2,
        reduction: Reduction = 3,
        retries: Retries = 2,
        fresh: Fresh = False,
        as_json: Json = False,
    ) -> None:
        """Search settings; resume the sweep in --out if there is one. Its best.yaml is a recipe for train."""
        folder = out or run_folder(f"tune_{recipe.stem}")

        def verb() -> dict[str, Any]:
            from rayner.recipes import load_recipe
            from rayner.runtime.sweep import sweep
            from rayner.runtime.sweeps.settings import METRICS, objectives, sweep_settings
            from rayner.runtime.sweeps.space import check_task, load_space

            base = load_recipe(recipe, overrides or [])
            searched = load_space(space)
            # Before its metric, which another task need not report.
            check_task(searched, base)
            several = len(metric or ()) > 1
            said = searched.metric and searched.metric + (f":{searched.mode}" if searched.mode else "")
            default = said or METRICS[base.task][0]
            settings = sweep_settings(
                trials=trials,
                search=search or ("optuna" if several else searched.search) or "random",
                scheduler=scheduler or ("none" if several else searched.scheduler) or "none",
                objectives=objectives(metric or [default], base),
                folds=folds,
                seeds=seeds,
                held_out=held_out,
                workers=base.scaling.workers if workers is None else workers,
                at_once=at_once,
                grace=grace,
                reduction=reduction,
                retries=retries,
                seed=base.seed,
            )
            return sweep(searched, base, folder, settings, fresh)

        run(verb, as_json, lambda result: _show(result, folder))


def _show(result: dict[str, Any], folder: Path) -> None:
    winner = result["winner"]
    facts = {
        "best settings": result["settings"] or "those of the recipe",
        "best trial": _scores(result["score"]) + _deviation(result["spread"]),
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
    commands = [f"rayner report {folder}", f"rayner train {result['best']}"]
    print_summary(Console(), facts, commands)


def _doubt(result: dict[str, Any]) -> dict[str, str]:
    """Where the best score lies, and how many others lie there, too."""
    if result["interval"] is None:
        return {}
    low, high = map(percent, result["interval"])
    within = result["within_interval"]
    others = f"{within or 'no'} other trial{'' if within == 1 else 's'}"
    cure = "; --folds tells more of them apart" if within else ""
    return {"its interval": f"{low} to {high} (95 %), with {others} in it{cure}"}


def _scores(scores: dict[str, float]) -> str:
    shown = {name: f"{value:.0f}" if name == "seconds" else percent(value) for name, value in scores.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _deviation(spread: float | None) -> str:
    return "" if spread is None else f" (standard deviation over runs {percent(spread)})"
